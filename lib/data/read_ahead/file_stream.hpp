#pragma once

#include "data/core/image_ranges.hpp"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace trainctl::data {

/// Reads files from front to back into the page cache, in a thread of its own: where an epoch takes
/// many small samples from few files, and memory holds them all, that is sooner done than reading
/// each sample at its turn. Who needs a sample before it has come reads it as ever.
class FileStream {
 public:
  /// `part`: of each file, what is read of it.
  FileStream(const ImageRanges& ranges, std::vector<FileRange> parts);
  /// Ends the thread after the read it is at.
  ~FileStream();
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;

 private:
  void run();
  void read(const FileRange& part, std::vector<std::byte>& buffer) const;

  const ImageRanges& ranges_;
  std::vector<FileRange> parts_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

/// What of each file the samples lie in, by file, where streaming is worth it: small samples that
/// fill few local files, which fit a quarter of `memory`. Else empty.
std::vector<FileRange> parts_to_stream(const ImageRanges& ranges, std::int64_t samples,
                                       std::uint64_t memory);

}  // namespace trainctl::data
