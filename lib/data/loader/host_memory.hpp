#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

namespace trainctl::data {

constexpr std::size_t kFieldAlignment = 64;
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment;
}

/// Whether pages are allocated immediately or when they are first written.
enum class Touch { now, on_use };

struct Unmap {
  std::size_t bytes = 0;
  void operator()(void* mapping) const;
};

/// Zero-initialized memory, aligned to 2 MiB and backed by huge pages if the kernel provides them.
class Arena {
 public:
  Arena() = default;
  /// Throws Error(resource) when there is not enough memory.
  explicit Arena(std::size_t bytes, Touch touch = Touch::now);

  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, Unmap> mapping_;
  std::span<std::byte> bytes_;
};

/// The number of rows to prefetch ahead of a copy, which hides the cache misses of small copies.
constexpr std::size_t kRowsAhead = 6;

/// Prefetches the first cache lines of a row; the hardware prefetches the rest of a large row.
inline void prefetch_row(const std::byte* row, std::size_t bytes) {
  constexpr std::size_t kCacheLine = 64;
  constexpr std::size_t kMostPrefetched = 4096;
  for (std::size_t at = 0; at < std::min(bytes, kMostPrefetched); at += kCacheLine)
    __builtin_prefetch(row + at);
}

}  // namespace trainctl::data
