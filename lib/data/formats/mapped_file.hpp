#pragma once

#include "data/formats/file_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace trainctl::data {

/// A mapped file while it may be read. Where the file becomes shorter meanwhile, or its disk fails,
/// touching a page raises SIGBUS, which no caller can turn into an error: a handler ends the
/// process as a data error does, with exit code 9 and a line on stderr that names file and byte. A
/// SIGBUS from elsewhere goes to the handler that was there before.
class WatchedPages {
 public:
  /// `fd` stays open as long; `name` is what the line calls the file.
  WatchedPages(std::span<const std::byte> bytes, int fd, const std::string& name);
  ~WatchedPages();
  WatchedPages(const WatchedPages&) = delete;
  WatchedPages& operator=(const WatchedPages&) = delete;

 private:
  struct WatchedRange* entry_;
};

/// A JSON document for the same end: `before`, the message, `after`. It goes to `file`, or to
/// stdout where that is empty.
struct LostPagesReport {
  std::filesystem::path file;
  std::string before;
  std::string after;
};
/// Of this process. Call it before threads start.
void report_lost_pages(LostPagesReport report);

/// Of a remote file: `as_needed` leaves it to need() to bring what is touched.
enum class Fetch { whole, as_needed };

/// A whole regular file in memory, read-only; its pages come when they are touched. Throws
/// Error(data) where it cannot be read; where it becomes shorter later, the process ends as
/// lost_pages.hpp says.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path, Fetch fetch = Fetch::whole);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  /// As errors name it.
  [[nodiscard]] const std::string& name() const { return name_; }
  void need(std::uint64_t offset, std::uint64_t size) const { file_.need(offset, size); }
  /// As it was when it was opened.
  [[nodiscard]] const FileStamp& stamp() const { return file_.stamp(); }

 private:
  std::string name_;
  FileReader file_;  // a local copy that is in use is not removed
  std::span<const std::byte> bytes_;
  std::optional<WatchedPages> watched_;
};

/// Digest of `bytes` for a manifest: of all of them up to 256 MiB, beyond that of their number and
/// of 4,096 pages spread evenly, so that a start does not read a set of many gigabytes.
std::string content_digest(std::span<const std::byte> bytes);

}  // namespace trainctl::data
