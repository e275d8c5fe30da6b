#pragma once

#include <cstddef>
#include <filesystem>
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

}  // namespace trainctl::data
