#pragma once

#include "data/core/image_ranges.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainctl::data {

constexpr std::uint64_t kReadPage = 4096;

/// The bytes that a range takes in the buffer: whole pages, as the disk gives them.
constexpr std::uint64_t in_pages(const FileRange& range) {
  return (range.offset + range.bytes + kReadPage - 1) / kReadPage * kReadPage -
         range.offset / kReadPage * kReadPage;
}

/// A piece of a file that is read at once, into the buffer at `at`.
struct PlannedRead {
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t needed = 0;  // of them; the rest may lie behind the end of the file
  std::uint64_t at = 0;
};

/// Where a wanted range comes to lie.
struct RangePlace {
  std::uint32_t read = 0;
  std::uint64_t at = 0;  // in the buffer
};

/// Reads of ranges in the order of the disk.
struct ReadPlan {
  std::vector<PlannedRead> reads;    // by file and offset
  std::vector<RangePlace> places;    // of each range
  std::vector<std::uint32_t> order;  // of the ranges, by file and offset

  /// Neighbours become one read where the gap between them is small and the buffer has room for
  /// it. All ranges in_pages() fit `capacity`.
  void make(const std::vector<FileRange>& ranges, std::uint64_t capacity);
};

}  // namespace trainctl::data
