#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trainctl::data {

/// A range of an open file to read into memory.
struct ReadRequest {
  int fd = -1;
  std::uint64_t offset = 0;
  std::span<std::byte> out;
  std::uint32_t tag = 0;  // chosen by the caller and returned with the result
};

struct ReadResult {
  std::uint32_t tag = 0;
  std::int64_t result = 0;  // bytes, possibly fewer than requested; negative: -errno
};

/// Reads files with many requests in flight. Used by one thread.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;
  /// Adds a request; the queue may defer it to the next collect().
  virtual void submit(const ReadRequest& request) = 0;
  /// Waits until `least` requests have completed, and appends all completed ones to `results`.
  virtual void collect(unsigned least, std::vector<ReadResult>& results) = 0;
};

/// Returns a queue that reads through io_uring; every request must lie in `memory`. Returns null
/// when the kernel or a container policy forbids io_uring, or in a build without liburing.
std::unique_ptr<ReadQueue> uring_queue(unsigned depth, std::span<std::byte> memory);

/// Returns a queue of up to `threads` threads that block in preadv().
std::unique_ptr<ReadQueue> thread_queue(unsigned threads);

}  // namespace trainctl::data
