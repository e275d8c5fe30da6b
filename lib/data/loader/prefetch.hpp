#pragma once

#include <algorithm>
#include <cstddef>

namespace trainctl::data {

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
