#pragma once

#include "base/files.hpp"
#include "base/strings.hpp"

#include <memory>
#include <tuple>

struct stat;

namespace trainctl::data {

/// Length and modification time. As for make(1), equal stamps mean an unchanged file.
struct FileStamp {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

/// Returns the stamp of a file from the result of stat().
FileStamp stamp_of(const struct stat& info);

/// The state of a file or folder when something was derived from it.
struct PathStamp {
  std::string path;
  std::int64_t mtime_ns = 0;
  std::uint64_t size = 0;
  static auto parts(auto& self) { return std::tie(self.path, self.mtime_ns, self.size); }
  bool operator==(const PathStamp&) const = default;
};

/// Returns the path escaped for messages.
inline std::string shown(const fs::path& path) { return printable(path.string()); }

/// What to do when the local copies that are being read leave no room for another one: wait some
/// seconds, or fail immediately.
enum class WhenFull { wait, fail };

class CachedObject;

/// Reads a regular file at any offset; thread-safe. For a remote path it reads a local copy, which
/// is downloaded on demand. All functions throw an Error that names the file: Error(data) when the
/// file is at fault, Error(resource) when the machine is.
class FileReader {
 public:
  explicit FileReader(const fs::path& path);
  /// `name` is the file name in errors.
  FileReader(Fd fd, std::string name);

  [[nodiscard]] const FileStamp& stamp() const { return stamp_; }
  [[nodiscard]] std::uint64_t size() const { return stamp_.size; }
  [[nodiscard]] int fd() const;
  [[nodiscard]] bool reads_remote() const { return remote_ != nullptr; }
  /// Downloads those bytes of a remote file if they are not local yet. read() calls it.
  void need(std::uint64_t offset, std::uint64_t size, WhenFull full = WhenFull::wait) const;
  /// Downloads all bytes, several blocks at a time.
  void need_all() const;
  /// Fills all of `out`, or throws an error with the byte at which the file ends.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Discards the local copy of a remote file.
  void forget() const;

 private:
  std::string name_;
  Fd fd_;
  std::shared_ptr<CachedObject> remote_;  // set instead of fd_
  FileStamp stamp_;
};

/// Opens files below a folder only: no `..`, absolute path or symbolic link can leave it. With
/// Links::follow, links may lead anywhere. The folder may be remote.
class DataRoot {
 public:
  /// Whether symbolic links are rejected or followed.
  enum class Links { refuse, follow };
  explicit DataRoot(fs::path folder, Links links = Links::refuse);
  /// For files that a list names, possibly as URLs. A remote list may name only URLs on the host of
  /// the list or of the folder, and never file://, unless links are followed.
  DataRoot(fs::path folder, fs::path list, Links links);

  [[nodiscard]] const fs::path& folder() const { return folder_; }
  /// Throws like FileReader.
  [[nodiscard]] FileReader open(const std::string& name) const;

 private:
  void check_url(const std::string& name) const;

  fs::path folder_;
  fs::path list_;  // the list that contains the names
  Links links_;
  Fd fd_;
};

/// A file of the data set has changed since the run started. This is Error(data) but not a damaged
/// sample: replacing the sample would make batches depend on the time of the change.
class ChangedFile final : public Error {
 public:
  explicit ChangedFile(std::string message) : Error(ErrorKind::data, std::move(message)) {}
};

/// Returns whether `error` means that a sample is damaged, so that another sample may replace it.
inline bool is_damage(const Error& error) {
  return error.kind() == ErrorKind::data && dynamic_cast<const ChangedFile*>(&error) == nullptr;
}

}  // namespace trainctl::data
