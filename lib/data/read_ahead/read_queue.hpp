#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trainctl::data {

/// Bytes of an open file that are to come into memory.
struct ReadRequest {
  int fd = -1;
  std::uint64_t offset = 0;
  std::span<std::byte> out;
  std::uint32_t tag = 0;  // whose it is; comes back with the result
};

struct ReadResult {
  std::uint32_t tag = 0;
  std::int64_t result = 0;  // bytes, perhaps fewer than were asked for; below 0: -errno
};

/// Reads of files, many at the same time. Used by one thread.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;
  /// Takes a request; the queue may put off its start to the next collect().
  virtual void submit(const ReadRequest& request) = 0;
  /// Waits until `least` requests have ended, and appends all that have to `results`.
  virtual void collect(unsigned least, std::vector<ReadResult>& results) = 0;
};

/// Reads through io_uring into `memory`, of which every request is a part. Null where the kernel,
/// or a container's policy, refuses it, and in a build without liburing.
std::unique_ptr<ReadQueue> uring_queue(unsigned depth, std::span<std::byte> memory);

/// Reads by up to `threads` threads that block in preadv.
std::unique_ptr<ReadQueue> thread_queue(unsigned threads);

}  // namespace trainctl::data
