#pragma once

#include "data/image/codec/format_decoder.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trainctl::data {

/// What the header of a WebP, BMP or TIFF file says about its pixels.
struct ClaimedImage {
  Extents stored;       // of the pixels as they lie in the file
  int orientation = 1;  // a TIFF's, 1 to 8: how they are to be turned
  bool is_tiff = false;
  /// Where a TIFF has numbers of 16 bits that stand in the way of its plain pixels unless they are
  /// 1: to be turned, to be multiplied by alpha. 0: nowhere.
  std::array<std::size_t, 2> not_plain_at{};
};

/// Reads a header, tiles included. Throws Error(data) where it is damaged, goes beyond the limits
/// or claims more pixels than an uncompressed file can hold.
ClaimedImage header_claim(std::span<const std::byte> file, const DecodeLimits& limits);

/// Throws Error(data) where uncompressed rows of so many bytes do not fit into a file.
void check_size(const char* format, const Extents& image, std::uint64_t row_bytes,
                std::size_t file_bytes);

}  // namespace trainctl::data
