#include "study/folder/run_folder.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <functional>

namespace trainctl::study {
namespace {

constexpr int kAttempts = 1000;  // two names that differ are at most 16 us apart

// Exclusive: two runs that start at the same moment cannot both succeed.
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

bool is_empty_but_for_the_lock(const fs::path& folder) {
  return std::ranges::all_of(fs::directory_iterator(folder), [](const auto& entry) {
    return entry.path().filename() == FolderLock::kFileName;
  });
}

RunFolder use_fixed(const FolderRequest& request) {
  make_folder(*request.fixed);
  const fs::path folder = real_folder(*request.fixed);
  RunFolder made{folder, FolderLock(folder, request.if_locked)};
  ENSURE(config, request.if_used == IfUsed::go_on || is_empty_but_for_the_lock(folder),
         "the run folder {} is not empty; go on with its run by --resume auto, choose another "
         "--run-dir, or remove it",
         printable(folder.string()));
  return made;
}

}  // namespace

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

fs::path real_folder(const fs::path& folder) {
  std::error_code failure;
  fs::path real = fs::weakly_canonical(folder, failure);
  // "none/../link" is only "link" then.
  if (!failure) real = fs::weakly_canonical(real, failure);
  if (failure) real = folder.lexically_normal();
  real = fs::absolute(real);
  return real.has_filename() || !real.has_relative_path() ? real : real.parent_path();
}

std::vector<fs::path> newest_first(const fs::path& parent) {
  std::vector<fs::path> folders;
  std::error_code failure;
  for (fs::directory_iterator at(parent, failure), end; !failure && at != end;
       at.increment(failure)) {
    std::error_code ignored;
    if (at->is_directory(ignored) && !at->is_symlink(ignored)) folders.push_back(at->path());
  }
  std::ranges::sort(folders, std::greater());
  const auto latest = std::ranges::find_if(folders, [&](const fs::path& folder) {
    return fs::equivalent(folder, parent / "latest", failure) && !failure;
  });
  if (latest != folders.end()) std::rotate(folders.begin(), latest, latest + 1);
  return folders;
}

std::optional<fs::path> newest_folder(const FolderRequest& request) {
  const auto all = newest_first(fs::absolute(request.root) / folder_name(request.name));
  return all.empty() ? std::nullopt : std::optional(real_folder(all.front()));
}

RunFolder make_run_folder(const FolderRequest& request) {
  if (request.fixed) return use_fixed(request);
  const fs::path parent = fs::absolute(request.root) / folder_name(request.name);
  make_folder(parent);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const fs::path folder = parent / utc_stamp();
    if (make_exclusively(folder)) {
      point_latest_at(folder);
      return {folder, FolderLock(folder)};
    }
  }
  throw Error(ErrorKind::resource,
              fmt::format("cannot find a free run folder below {}", parent.string()));
}

}  // namespace trainctl::study
