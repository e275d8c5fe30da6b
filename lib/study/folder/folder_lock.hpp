#pragma once

#include "base/files.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace trainctl::study {

/// Whose a folder is: the line of JSON in its file `.lock`.
struct LockHolder {
  std::string host;
  int pid = 0;
  std::uint64_t pid_namespace = 0;  // inode of the one that the pid is of; 0: unknown
  std::string boot_id;              // of the kernel; empty: unknown
  std::uint64_t started = 0;        // when the process did, in ticks since the boot
  std::string since;                // UTC, for people
};

LockHolder this_process();
/// One line, with its end.
std::string lock_line(const LockHolder& holder);
/// Reads such a line back; nothing where it is none.
std::optional<LockHolder> read_lock_line(std::string_view text);

/// Why the holder is gone for certain, as `here` sees it; nothing where it lives, or where that
/// cannot be told: another host, another pid namespace, an unknown boot.
std::optional<std::string> why_gone(const LockHolder& holder, const LockHolder& here);

/// Whether the holder is another process that lives for certain, as `here` sees it.
bool surely_lives(const LockHolder& holder, const LockHolder& here);

/// Returns who holds the folder by its file `.lock`; nothing where that is missing or cannot be
/// read.
std::optional<LockHolder> lock_holder(const fs::path& folder);

/// Whether another process that lives for certain holds the folder.
bool is_in_use(const fs::path& folder);

enum class IfLocked { refuse, take_over };

/// While it lives the folder is one run's alone: a file `.lock` in it says whose. One whose holder
/// is gone is taken over, and the log says so; of several runs that find it, one does. What that
/// holder had not finished to write is removed then.
class FolderLock {
 public:
  static constexpr const char* kFileName = ".lock";

  /// `take_over`: whoever holds it. Throws Error(resource) naming the holder where another run has
  /// it, or where the folder cannot be written.
  explicit FolderLock(const fs::path& folder, IfLocked if_locked = IfLocked::refuse);
  /// Removes the file, unless another run has taken it over.
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept
      : path_(std::exchange(other.path_, fs::path())), line_(std::move(other.line_)) {}
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  fs::path path_;  // empty: moved from
  std::string line_;
};

}  // namespace trainctl::study
