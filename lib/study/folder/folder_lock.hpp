#pragma once

#include "base/files.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace trainctl::study {

/// The process that owns a folder, as the JSON line in its `.lock` file records it.
struct LockHolder {
  std::string host;
  int pid = 0;
  std::uint64_t pid_namespace = 0;  // inode of the pid's namespace; 0: unknown
  std::string boot_id;              // of the kernel; empty: unknown
  std::uint64_t started = 0;        // start time of the process, in clock ticks since boot
  std::string since;                // UTC, for people
};

LockHolder this_process();
/// Returns one line of JSON with its newline.
std::string lock_line(const LockHolder& holder);
/// Parses such a line; nullopt if the text is not a lock line.
std::optional<LockHolder> read_lock_line(std::string_view text);

/// Returns why the holder has certainly exited, as seen from `here`. Returns nullopt if the holder
/// is alive or this cannot be decided: another host, another pid namespace, an unknown boot.
std::optional<std::string> why_exited(const LockHolder& holder, const LockHolder& here);

/// Returns whether the holder is certainly alive and is not this process, as seen from `here`.
bool is_certainly_alive(const LockHolder& holder, const LockHolder& here);

/// Returns the holder recorded in the folder's `.lock`; nullopt if the file is missing or cannot be
/// read.
std::optional<LockHolder> lock_holder(const fs::path& folder);

/// Returns whether another process that is certainly alive holds the folder.
bool is_in_use(const fs::path& folder);

enum class IfLocked { refuse, take_over };

/// Reserves a folder for one run as long as the object lives; the `.lock` file in the folder names
/// the run. A lock whose holder has exited is taken over with a log line; if several runs find it,
/// only one succeeds. Unfinished files of the exited holder are removed at that time.
class FolderLock {
 public:
  static constexpr const char* kFileName = ".lock";

  /// `take_over` replaces any holder. Throws Error(resource) that names the holder when another run
  /// has the lock, or when the folder cannot be written.
  explicit FolderLock(const fs::path& folder, IfLocked if_locked = IfLocked::refuse);
  /// Removes the file, unless another run has taken over the lock.
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept
      : path_(std::exchange(other.path_, fs::path())), line_(std::move(other.line_)) {}
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  fs::path path_;  // empty: moved from
  std::string line_;
};

}  // namespace trainctl::study
