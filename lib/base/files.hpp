#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace trainctl {

namespace fs = std::filesystem;

/// Return whether there is something, a regular file or a folder at the path; false if the path
/// cannot be examined.
bool path_exists(const fs::path& path);
bool is_file(const fs::path& path);
bool is_folder(const fs::path& path);

/// Owns an open file descriptor and closes it in the destructor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  /// Gives up ownership and returns the descriptor, or -1.
  int release();
  /// Closes the descriptor, if there is one.
  void reset();

 private:
  int fd_ = -1;
};

/// Removes a file in the destructor, unless keep() was called.
class FileGuard {
 public:
  explicit FileGuard(fs::path path) : path_(std::move(path)) {}
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }
  /// Makes the destructor keep the file.
  void keep() { is_kept_ = true; }

 private:
  fs::path path_;
  bool is_kept_ = false;
};

/// Writes all bytes, and retries after EINTR and short writes. Throws Error(resource) naming
/// `label` and the cause.
void write_all(int fd, std::string_view bytes, const std::string& label);
/// Writes the pieces one after another, in few system calls and without a copy, as write_all().
void write_gathered(int fd, std::span<const std::string_view> pieces, const std::string& label);

/// Writes a temporary file in the same folder, calls fsync, renames it to `path` and calls fsync
/// for the folder, so that readers see the old file or the new one. On any failure the temporary
/// file is removed. Throws Error(resource) (disk full, read-only, permission).
void write_atomically(const fs::path& path, std::string_view bytes);
/// Does the same for large content: `write` gets the open descriptor.
void write_atomically(const fs::path& path, const std::function<void(int fd)>& write);

/// A file whose disk space is allocated early and whose content is written at the end of a run, so
/// that the write cannot fail because the disk filled up in the meantime. A file that exists at
/// `path` stays until publish().
class ReservedFile {
 public:
  /// Allocates `bytes` in the file ".NAME.reserved.PID" next to `path`. Throws Error(resource).
  ReservedFile(fs::path path, std::uint64_t bytes);
  /// Frees the space if publish() was not called.
  ~ReservedFile();
  ReservedFile(const ReservedFile&) = delete;
  ReservedFile& operator=(const ReservedFile&) = delete;

  /// Writes the content, calls fsync and renames the file to `path`. May be called once only.
  /// Throws Error(resource).
  void publish(std::string_view content);

 private:
  fs::path path_;
  fs::path temporary_;
  Fd fd_;
};

/// Renames a file that was written under a temporary name in the same folder to `path`, with fsync
/// for the file and the folder.
void publish(const fs::path& written, int fd, const fs::path& path);

/// Calls fsync for the folder, so that files created, renamed or linked in the folder survive a
/// power failure. Throws Error(resource).
void sync_folder(const fs::path& folder);

/// Returns whether the errno of a failed open() describes the path itself (nothing there, a link, a
/// folder), and not a disk, a server, limits or permissions that hide what is there.
bool is_path_error(int cause);

/// The kind of Error that read_file() throws.
enum class ReadFailure : int { config = 2, data = 9, resource = 11 };
/// Returns the content of a file as text. From a pipe it reads what arrives within 3 seconds.
std::string read_file(const fs::path& path, std::uint64_t max_bytes, ReadFailure on_failure);

/// Appends lines to a file with one write() per line, so that lines survive the end of the process.
/// Throws Error(resource). If the disk does not accept a whole line, the partial line is removed.
class AppendFile {
 public:
  explicit AppendFile(fs::path path);
  void append_line(std::string_view line);
  /// Calls fsync. A power failure can lose lines that were written after the last call.
  void sync();
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  Fd fd_;
};

/// Returns the sorted paths of the entries of a folder, up to the first error; empty if the folder
/// cannot be read.
std::vector<fs::path> paths_in(const fs::path& folder);

/// Creates the folder and its parents. Throws Error(resource) with the cause (read-only, not a
/// folder, ...).
void make_folder(const fs::path& path);

/// A regular file that is mapped into memory, read-only. Pages are read when they are first
/// accessed. If the file is truncated while it is mapped, an access raises SIGBUS; code that runs
/// in the supervisor or in a worker holds a data::WatchedPages over the bytes while it reads them.
class FileMapping {
 public:
  /// Throws Error of `kind` if the path is not a regular file or cannot be read.
  FileMapping(const fs::path& path, ErrorKind kind);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  Fd fd_;
  std::span<const std::byte> bytes_;
};

/// Returns "did you mean 'PATH'?" with the existing file whose name is closest to the name of the
/// missing `path`, in the same folder or else in the folders below. Empty if no file name is close.
std::string nearest_file_hint(const fs::path& path);

}  // namespace trainctl
