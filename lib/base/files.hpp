#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace trainctl {

namespace fs = std::filesystem;

/// An open file descriptor, closed at the end of its life.
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
  int release();
  void reset();

 private:
  int fd_ = -1;
};

/// Removes a file at the end of its life, unless it is kept.
class FileGuard {
 public:
  explicit FileGuard(fs::path path) : path_(std::move(path)) {}
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }
  void keep() { is_kept_ = true; }

 private:
  fs::path path_;
  bool is_kept_ = false;
};

/// Writes all bytes (EINTR and short writes are looped). Throws ErrorKind::resource naming `label`
/// and the cause.
void write_all(int fd, std::string_view bytes, const std::string& label);
/// The same of many pieces one behind the other, in few system calls and without a copy.
void write_gathered(int fd, std::span<const std::string_view> pieces, const std::string& label);

/// Temporary name in the same folder, fsync, rename, fsync of the folder: readers see the old file
/// or the new one. On any failure the temporary file is removed. Throws ErrorKind::resource (disk
/// full, read-only, permission).
void write_atomically(const fs::path& path, std::string_view bytes);
/// The same for large content: `write` gets the open descriptor.
void write_atomically(const fs::path& path, const std::function<void(int fd)>& write);

/// A file whose space is taken now and whose content comes last: a disk that fills up meanwhile
/// does not cost it. What is written atomically under that name before stays until then.
class ReservedFile {
 public:
  /// Takes `bytes` beside `path`, as ".NAME.reserved.PID". Throws ErrorKind::resource.
  ReservedFile(fs::path path, std::uint64_t bytes);
  /// Gives the space back where nothing was published.
  ~ReservedFile();
  ReservedFile(const ReservedFile&) = delete;
  ReservedFile& operator=(const ReservedFile&) = delete;

  /// Writes the content, synced and renamed to `path`. Once only. Throws ErrorKind::resource.
  void publish(std::string_view content);

 private:
  fs::path path_;
  fs::path temporary_;
  Fd fd_;
};

/// Publishes a file that is written under another name of the folder: fsync, rename, fsync of the
/// folder.
void publish(const fs::path& written, int fd, const fs::path& path);

/// Makes what was created, renamed or linked in the folder survive a power cut. Throws
/// ErrorKind::resource.
void sync_folder(const fs::path& folder);

/// Returns whether the errno of a failed open() tells what lies at the path (nothing, a link, a
/// folder), and not that a disk, a server, limits or rights keep it from being seen.
bool tells_what_is_there(int cause);

/// The kind of Error with which read_file() fails.
enum class ReadFailure : int { config = 2, data = 9, resource = 11 };
/// Returns a whole file as text; of a pipe what it brings within 3 seconds.
std::string read_file(const fs::path& path, std::uint64_t max_bytes, ReadFailure on_failure);

/// Appends lines that survive the process: one write() a line. Throws ErrorKind::resource; of a
/// line that the disk does not take whole, nothing is left.
class AppendFile {
 public:
  explicit AppendFile(fs::path path);
  void append_line(std::string_view line);
  /// Until here a power cut may take the lines back.
  void sync();
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  Fd fd_;
};

/// Creates the folder and its parents. Throws ErrorKind::resource with a sentence (read-only, not a
/// folder, ...).
void make_folder(const fs::path& path);

/// A whole regular file in memory, read-only; its pages come when they are touched. Where the file
/// becomes shorter meanwhile, touching them raises SIGBUS: whoever reads them in a process that
/// matters holds a data::WatchedPages over them.
class FileMapping {
 public:
  /// Throws Error of `kind` where it is no regular file or cannot be read.
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

/// Returns "did you mean 'PATH'?" with the existing file whose name is closest to that of the
/// missing `path`: in its folder, else in the folders below. Empty where no file is close.
std::string nearest_file_hint(const fs::path& path);

}  // namespace trainctl
