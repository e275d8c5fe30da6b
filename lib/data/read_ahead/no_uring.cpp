#include "data/read_ahead/read_queue.hpp"

// Replaces uring_queue.cpp in a build without liburing.

namespace trainctl::data {

std::unique_ptr<ReadQueue> uring_queue(unsigned /*depth*/, std::span<std::byte> /*memory*/) {
  return nullptr;
}

}  // namespace trainctl::data
