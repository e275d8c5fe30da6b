#pragma once

#include "data/formats/file_reader.hpp"

namespace trainctl::data {

/// Registers a mapped file for its lifetime. If the file shrinks or its disk fails, accessing a
/// page raises SIGBUS, which no caller can turn into an exception. A handler then ends the process
/// like a data error, with exit code 9 and a line on stderr with file and byte. Any other SIGBUS
/// goes to the previous handler.
class WatchedPages {
 public:
  /// `fd` must stay open for the lifetime of this object; `name` is the file name in the message.
  WatchedPages(std::span<const std::byte> bytes, int fd, const std::string& name);
  ~WatchedPages();
  WatchedPages(const WatchedPages&) = delete;
  WatchedPages& operator=(const WatchedPages&) = delete;

 private:
  struct WatchedRange* entry_;
};

/// A JSON document for that case: `before`, the message, `after`. It is written to `file`, or to
/// stdout if that is empty.
struct LostPagesReport {
  std::filesystem::path file;
  std::string before;
  std::string after;
};
/// Sets the report of this process. Must be called before threads start.
void report_lost_pages(LostPagesReport report);

/// For a remote file: `as_needed` downloads only the bytes that are requested by need().
enum class Fetch { whole, as_needed };

/// A read-only mapping of a whole regular file. Throws Error(data) when it cannot be read. If the
/// file shrinks later, WatchedPages ends the process.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path, Fetch fetch = Fetch::whole);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  /// Returns the file name for errors.
  [[nodiscard]] const std::string& name() const { return name_; }
  void need(std::uint64_t offset, std::uint64_t size) const { file_.need(offset, size); }
  /// Returns the stamp at the time of opening.
  [[nodiscard]] const FileStamp& stamp() const { return file_.stamp(); }

 private:
  std::string name_;
  FileReader file_;  // keeps a local copy from being evicted
  std::span<const std::byte> bytes_;
  std::optional<WatchedPages> watched_;
};

/// Returns a digest of `bytes` for a manifest. Above 256 MiB it covers only the size and 4,096
/// evenly spaced pages, so that startup does not read many gigabytes.
std::string content_digest(std::span<const std::byte> bytes);

}  // namespace trainctl::data
