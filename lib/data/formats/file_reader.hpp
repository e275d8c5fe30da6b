#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>

struct stat;

namespace trainctl::data {

/// Length and time of the last change: equal stamps mean an unchanged file, as make(1) sees it.
struct FileStamp {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

FileStamp stamp_of(const struct stat& info);

/// A file or folder that something was made from, as it was then.
struct PathMark {
  std::string path;
  std::int64_t mtime_ns = 0;
  std::uint64_t size = 0;
  static auto parts(auto& self) { return std::tie(self.path, self.mtime_ns, self.size); }
  bool operator==(const PathMark&) const = default;
};

/// The path as messages show it.
inline std::string shown(const fs::path& path) { return printable(path.string()); }

/// Where the local copies that others read just now leave no room for more: wait some seconds for
/// them, or fail at once.
enum class WhenFull { wait, fail };

class CachedObject;

/// A regular file read at any offset, by any thread; of a remote path its local copy, which comes
/// as it is read. Every function throws an Error that names the file: of kind data where the file
/// is at fault, resource where the machine is.
class FileReader {
 public:
  explicit FileReader(const fs::path& path);
  /// `name` is what errors call the file.
  FileReader(Fd fd, std::string name);

  [[nodiscard]] const FileStamp& stamp() const { return stamp_; }
  [[nodiscard]] std::uint64_t size() const { return stamp_.size; }
  [[nodiscard]] int fd() const;
  [[nodiscard]] bool reads_remote() const { return remote_ != nullptr; }
  /// Where only a part of a remote file may be here: brings those bytes; read() does so itself.
  void need(std::uint64_t offset, std::uint64_t size, WhenFull full = WhenFull::wait) const;
  /// The same of all bytes, several blocks at a time.
  void need_all() const;
  /// Fills all of `out`, or says at which byte the file ends.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Of a remote file: the local copy is not to be used again.
  void forget() const;

 private:
  std::string name_;
  Fd fd_;
  std::shared_ptr<CachedObject> remote_;  // in place of fd_
  FileStamp stamp_;
};

/// A folder whose files are opened beneath it only: no `..`, no absolute path and no symbolic link
/// leads out of it. With Links::follow, links lead anywhere. It may be remote.
class DataRoot {
 public:
  enum class Links { refuse, follow };
  explicit DataRoot(fs::path folder, Links links = Links::refuse);
  /// Of files that a list names, which may name URLs, too; a remote list only those of its own host
  /// or of the folder's, and never file://, unless links are followed.
  DataRoot(fs::path folder, fs::path list, Links links);

  [[nodiscard]] const fs::path& folder() const { return folder_; }
  /// Throws as FileReader does.
  [[nodiscard]] FileReader open(const std::string& name) const;

 private:
  void check_url(const std::string& name) const;

  fs::path folder_;
  fs::path list_;  // whose word the names are
  Links links_;
  Fd fd_;
};

/// A file of the data set is another than it was when the run began. Error(data), and yet no damage
/// of one sample: to replace it would make the batches depend on when the file was changed.
class ChangedFile final : public Error {
 public:
  explicit ChangedFile(std::string message) : Error(ErrorKind::data, std::move(message)) {}
};

/// Whether `error` says that a sample is damaged, for which another may take its place.
inline bool is_damage(const Error& error) {
  return error.kind() == ErrorKind::data && dynamic_cast<const ChangedFile*>(&error) == nullptr;
}

}  // namespace trainctl::data
