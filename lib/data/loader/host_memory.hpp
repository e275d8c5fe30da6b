#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace trainctl::data {

constexpr std::size_t kFieldAlignment = 64;
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment;
}

enum class Touch { now, on_use };

/// One zeroed range of memory, taken once and touched once, aligned to 2 MiB and on huge pages
/// where the kernel gives them.
class Arena {
 public:
  Arena() = default;
  /// Throws Error(resource) when the memory is not to be had.
  explicit Arena(std::size_t bytes, Touch touch = Touch::now);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::span<std::byte> bytes_;
};

/// Rows asked for ahead of the copy of one: enough to hide a miss in memory behind small copies.
constexpr std::size_t kRowsAhead = 6;

/// Asks for a row's cache lines; for the first ones of a large row, as the hardware sees the rest
/// coming.
inline void prefetch_row(const std::byte* row, std::size_t bytes) {
  constexpr std::size_t kCacheLine = 64;
  constexpr std::size_t kMostPrefetched = 4096;
  for (std::size_t at = 0; at < std::min(bytes, kMostPrefetched); at += kCacheLine)
    __builtin_prefetch(row + at);
}

}  // namespace trainctl::data
