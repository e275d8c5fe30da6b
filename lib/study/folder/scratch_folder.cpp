#include "study/folder/scratch_folder.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "study/folder/folder_lock.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace trainctl::study {
namespace {

constexpr std::string_view kPattern = "trainctl-XXXXXX";

bool is_own_folder(const fs::path& path) {
  constexpr std::size_t kRandom = 6;
  const std::string name = path.filename().string();
  struct stat info {};
  return name.size() == kPattern.size() &&
         name.starts_with(kPattern.substr(0, kPattern.size() - kRandom)) &&
         ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

bool was_left(const fs::path& folder) {
  constexpr std::uint64_t kMostBytes = 4096;
  try {
    const auto holder = read_lock_line(
        read_file(folder / FolderLock::kFileName, kMostBytes, ReadFailure::resource));
    return holder && why_gone(*holder, this_process());
  } catch (const Error&) {
    return false;
  }
}

// What cannot be removed stays: nobody asked for it now.
void remove_left(const fs::path& parent) {
  std::vector<fs::path> left;
  std::error_code failure;
  fs::directory_iterator entry(parent, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    if (is_own_folder(entry->path()) && was_left(entry->path())) left.push_back(entry->path());
  }
  for (const fs::path& folder : left) fs::remove_all(folder, failure);
}

}  // namespace

ScratchFolder::ScratchFolder(const fs::path& parent) {
  remove_left(parent);
  std::string name = (fs::absolute(parent) / kPattern).string();
  const char* const made = ::mkdtemp(name.data());
  ENSURE(resource, made != nullptr, "cannot make a folder in {}: {}", printable(parent.string()),
         std::strerror(errno));
  path_ = made;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
}

fs::path temporary_folder() {
  std::error_code failure;
  fs::path folder = fs::temp_directory_path(failure);
  const char* const named = std::getenv("TMPDIR");
  ENSURE(resource, !failure, "there is no folder for temporary files{}: {}; set TMPDIR to one",
         named == nullptr ? "" : fmt::format(" (TMPDIR is '{}')", printable(named)),
         failure.message());
  return folder;
}

}  // namespace trainctl::study
