#include "data/read_ahead/read_queue.hpp"

// The twin of uring_queue.cpp for a build without liburing.

namespace trainctl::data {

std::unique_ptr<ReadQueue> uring_queue(unsigned /*depth*/, std::span<std::byte> /*memory*/) {
  return nullptr;
}

}  // namespace trainctl::data
