#include "study/folder/folder_lock.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/procfs.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"
#include "study/folder/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <limits>
#include <thread>

namespace trainctl::study {
namespace {

constexpr int kLockAttempts = 200;
constexpr auto kLockPause = std::chrono::milliseconds(5);

std::string content_of(int fd) {
  std::array<char, 4096> bytes{};
  const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), 0);
  return count > 0 ? std::string(bytes.data(), static_cast<std::size_t>(count)) : std::string();
}

bool is_open_at(const fs::path& path, int fd) {
  struct stat there {};
  struct stat open {};
  return ::lstat(path.c_str(), &there) == 0 && ::fstat(fd, &open) == 0 &&
         there.st_ino == open.st_ino && there.st_dev == open.st_dev;
}

std::string holder_text(const std::string& content) {
  if (const auto holder = read_lock_line(content))
    return fmt::format("pid {} on {} since {}", holder->pid, printable(holder->host),
                       printable(holder->since));
  const std::string first = printable(split(content, '\n').front());
  return first.empty() ? "another run" : fmt::format("another run ('{}')", first.substr(0, 200));
}

// Creates the file atomically with its content, so that no process reads it empty. Returns false if
// it exists.
bool link_new(const fs::path& path, const std::string& line) {
  const Fd fd(::open(path.parent_path().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644));
  if (!fd.valid()) return false;
  write_all(fd.get(), line, path.string());
  const std::string open = fmt::format("/proc/self/fd/{}", fd.get());
  return ::linkat(AT_FDCWD, open.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

bool create(const fs::path& path, const std::string& line) {
  if (link_new(path, line)) return true;
  // Some file systems, such as NFS, do not support O_TMPFILE.
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  ENSURE(resource, fd.valid() || errno == EEXIST,
         "cannot write {}: {}\nhint: choose a writable folder with --out", path.string(),
         std::strerror(errno));
  if (!fd.valid()) return false;
  try {
    write_all(fd.get(), line, path.string());
  } catch (const Error&) {
    ::unlink(path.c_str());
    throw;
  }
  return true;
}

// Writes in place, so that the file always exists and no third run can create one in between.
void overwrite(int fd, const fs::path& path, const std::string& line) {
  const auto length = static_cast<ssize_t>(line.size());
  ENSURE(resource,
         ::pwrite(fd, line.data(), line.size(), 0) == length && ::ftruncate(fd, length) == 0,
         "cannot write {}: {}", path.string(), std::strerror(errno));
}

struct Claim {
  fs::path path;
  std::string line;
  IfLocked if_locked;

  [[noreturn]] void refuse(const std::string& content) const {
    THROW(resource,
          "the run folder {} is in use by {}\nhint: choose another --run-dir, or "
          "add --break-lock if that process has exited",
          path.parent_path().string(), holder_text(content));
  }

  void log_takeover(const std::string& content, const std::string& why) const {
    log::get().warn("removed the lock of the run folder {}: it was held by {}, and {}",
                    path.parent_path().string(), holder_text(content), why);
  }

  // Checks and replaces the holder while this process holds an flock on the file. Returns false if
  // another run holds the flock, or if the file no longer exists.
  [[nodiscard]] bool take_over() const {
    const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd.valid() && errno == ENOENT) return false;
    if (!fd.valid()) refuse("");
    const bool locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) return false;
    const std::string content = content_of(fd.get());
    if (!locked) refuse(content);  // the file system does not support flock
    if (!is_open_at(path, fd.get())) return false;
    const auto holder = read_lock_line(content);
    const auto gone = holder ? why_exited(*holder, this_process()) : std::nullopt;
    if (!gone && if_locked == IfLocked::refuse) refuse(content);
    overwrite(fd.get(), path, line);
    log_takeover(content, gone.value_or("--break-lock is set"));
    if (gone) remove_unfinished(path.parent_path());
    return true;
  }
};

std::string content_at(const fs::path& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return fd.valid() ? content_of(fd.get()) : "";
}

}  // namespace

std::optional<LockHolder> lock_holder(const fs::path& folder) {
  return read_lock_line(content_at(folder / FolderLock::kFileName));
}

bool is_in_use(const fs::path& folder) {
  const auto holder = lock_holder(folder);
  return holder && is_certainly_alive(*holder, this_process());
}

FolderLock::FolderLock(const fs::path& folder, IfLocked if_locked)
    : path_(fs::absolute(folder) / kFileName), line_(lock_line(this_process())) {
  const Claim claim{path_, line_, if_locked};
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    if (create(path_, line_) || claim.take_over()) return;
    std::this_thread::sleep_for(kLockPause);
  }
  claim.refuse(content_at(path_));
}

FolderLock::~FolderLock() {
  if (path_.empty()) return;
  const Fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return;
  // The flock excludes a process that is taking over the lock. A process that checks the lock now
  // sees that its holder is alive, and gives up.
  for (int i = 0; i < kLockAttempts && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK) break;
    std::this_thread::sleep_for(kLockPause);
  }
  if (is_open_at(path_, fd.get()) && content_of(fd.get()) == line_) ::unlink(path_.c_str());
}

LockHolder this_process() {
  LockHolder holder;
  holder.host = read_machine().host;
  holder.pid = ::getpid();
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) == 0) holder.pid_namespace = info.st_ino;
  holder.boot_id = first_line_of("/proc/sys/kernel/random/boot_id");
  if (const auto process = read_process_stat(holder.pid)) holder.started = process->start_ticks;
  holder.since = utc_timestamp();
  return holder;
}

std::string lock_line(const LockHolder& holder) {
  Json line;
  line["host"] = holder.host;
  line["pid"] = holder.pid;
  line["since"] = holder.since;
  line["process_started"] = holder.started;
  line["pid_namespace"] = holder.pid_namespace;
  line["boot_id"] = holder.boot_id;
  return to_line(line) + "\n";
}

std::optional<LockHolder> read_lock_line(std::string_view text) {
  const Json line = parse_json(text.substr(0, text.find('\n')));
  if (!line.is_object()) return std::nullopt;
  bool valid = true;
  const auto word = [&](const char* key) {
    const auto found = line.find(key);
    const bool fits = found != line.end() && found->is_string();
    valid = valid && fits;
    return fits ? found->get<std::string>() : std::string();
  };
  const auto number = [&](const char* key) {
    const auto found = line.find(key);
    const bool fits = found != line.end() && found->is_number_unsigned();
    valid = valid && fits;
    return fits ? found->get<std::uint64_t>() : 0;
  };
  const std::uint64_t pid = number("pid");
  LockHolder holder{.host = word("host"),
                    .pid = static_cast<int>(pid),
                    .pid_namespace = number("pid_namespace"),
                    .boot_id = word("boot_id"),
                    .started = number("process_started"),
                    .since = word("since")};
  const bool is_pid = pid > 0 && pid <= static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  return valid && is_pid ? std::optional(std::move(holder)) : std::nullopt;
}

std::optional<std::string> why_exited(const LockHolder& holder, const LockHolder& here) {
  if (holder.host != here.host || holder.boot_id.empty() || here.boot_id.empty())
    return std::nullopt;
  if (holder.boot_id != here.boot_id) {
    // Many machines have the name "localhost".
    if (holder.host.empty() || holder.host == "localhost") return std::nullopt;
    return "the machine has rebooted since";
  }
  if (holder.pid_namespace == 0 || holder.pid_namespace != here.pid_namespace) return std::nullopt;
  if (::kill(holder.pid, 0) != 0 && errno == ESRCH) return "the process has exited";
  const auto process = read_process_stat(holder.pid);
  if (!process || holder.started == 0) return std::nullopt;  // hidden: another user's
  if (process->start_ticks != holder.started) return "another process has that pid now";
  if (process->state == 'Z' || process->state == 'X') return "the process has exited";
  return std::nullopt;
}

bool is_certainly_alive(const LockHolder& holder, const LockHolder& here) {
  const bool is_seen = holder.host == here.host && !holder.boot_id.empty() &&
                       holder.boot_id == here.boot_id && holder.pid_namespace != 0 &&
                       holder.pid_namespace == here.pid_namespace;
  return is_seen && holder.pid != here.pid && !why_exited(holder, here);
}

}  // namespace trainctl::study
