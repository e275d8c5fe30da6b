#include "data/formats/verify_unchanged.hpp"

#include "base/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace trainctl::data {
namespace {

constexpr std::size_t kThreads = 8;
constexpr std::size_t kAtOnce = 1024;  // neighbours, which lie in one folder mostly

bool is_as_listed(int folder, const std::string& name, const FileStamp& listed) {
  struct stat info {};
  return ::fstatat(folder, name.c_str(), &info, 0) == 0 && stamp_of(info) == listed;
}

}  // namespace

bool is_as_listed(const fs::path& root, const ImageFiles& files) {
  const Fd folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::size_t count = files.files.size();
  if (!folder.valid() || files.stamps.size() != count) return false;
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> same = true;
  const auto work = [&] {
    for (std::size_t first = next.fetch_add(kAtOnce); first < count && same;
         first = next.fetch_add(kAtOnce)) {
      for (std::size_t i = first; i < std::min(first + kAtOnce, count); ++i) {
        if (!is_as_listed(folder.get(), std::string(files.files[i]), files.stamps[i])) same = false;
      }
    }
  };
  std::vector<std::jthread> helpers;
  try {
    for (std::size_t i = 1; i < std::min(kThreads, count / kAtOnce); ++i)
      helpers.emplace_back(work);
  } catch (const std::system_error&) {  // fewer are enough
  }
  work();
  helpers.clear();
  return same;
}

}  // namespace trainctl::data
