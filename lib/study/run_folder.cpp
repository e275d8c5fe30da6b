#include "study/run_folder.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine.hpp"
#include "base/strings.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <random>

namespace trainctl::study {
namespace {

constexpr int kAttempts = 16;

// Exclusive: two runs that start in the same second with the same suffix cannot both succeed.
bool make_exclusively(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0755) == 0) return true;
  ENSURE(resource, errno == EEXIST,
         "cannot create the run folder {}: {}; choose a writable folder with --out",
         folder.string(), std::strerror(errno));
  return false;
}

// A convenience for people, so a failure is not worth ending the run. Replaced by rename: never
// absent for a reader.
void point_latest_at(const fs::path& folder) {
  const fs::path temporary = folder.parent_path() / fmt::format(".latest.{}", ::getpid());
  std::error_code failure;
  fs::remove(temporary, failure);
  fs::create_directory_symlink(folder.filename(), temporary, failure);
  if (!failure) fs::rename(temporary, folder.parent_path() / "latest", failure);
  if (failure) fs::remove(temporary, failure);
}

constexpr const char* kLockName = ".lock";

std::string holder(const fs::path& lock) {
  constexpr std::uint64_t kMostBytes = 1 << 12;
  try {
    const std::string text = read_file(lock, kMostBytes, ReadFailure::resource);
    return text.empty() ? "another run" : printable(split(text, '\n').front());
  } catch (const Error&) {
    return "another run";
  }
}

bool is_empty_but_for_the_lock(const fs::path& folder) {
  return std::ranges::all_of(fs::directory_iterator(folder), [](const auto& entry) {
    return entry.path().filename() == kLockName;
  });
}

RunFolder use_fixed(const fs::path& folder) {
  make_folder(folder);
  RunFolder made{fs::absolute(folder), FolderLock(folder)};
  ENSURE(config, is_empty_but_for_the_lock(folder),
         "the run folder {} is not empty; choose another --run-dir, or remove it",
         printable(folder.string()));
  return made;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) : path_(fs::absolute(folder) / kLockName) {
  const Fd fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  ENSURE(resource, fd.valid() || errno == EEXIST,
         "cannot write {}: {}; choose a writable folder with --out", path_.string(),
         std::strerror(errno));
  ENSURE(resource, fd.valid(),
         "the run folder {} is in use by {}; choose another --run-dir, or remove {} if that "
         "process is gone",
         folder.string(), holder(path_), path_.string());
  const std::string text =
      fmt::format("pid {} on {} since {}\n", ::getpid(), read_machine().host, utc_timestamp());
  write_all(fd.get(), text, path_.string());
}

FolderLock::~FolderLock() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

std::string folder_name(const std::string& name) {
  std::string safe;
  for (const char c : name.substr(0, 100)) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    safe += plain ? c : '-';
  }
  const bool only_dots = safe.find_first_not_of('.') == std::string::npos;
  return only_dots ? "experiment" : safe;
}

RunFolder make_run_folder(const FolderRequest& request) {
  if (request.fixed) return use_fixed(*request.fixed);
  const fs::path parent = fs::absolute(request.root) / folder_name(request.name);
  make_folder(parent);
  std::random_device random;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const fs::path folder = parent / fmt::format("{}-{:04x}", local_stamp(), random() & 0xFFFFU);
    if (make_exclusively(folder)) {
      point_latest_at(folder);
      return {folder, FolderLock(folder)};
    }
  }
  throw Error(ErrorKind::resource,
              fmt::format("cannot find a free run folder below {}", parent.string()));
}

}  // namespace trainctl::study
