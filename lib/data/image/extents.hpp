#pragma once

#include "data/image/format_decoder.hpp"

namespace trainctl::data {

struct Extents {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// What the header of a WebP, BMP or TIFF file claims, its tiles included. Throws Error(data) where
/// it is damaged or beyond the limits.
Extents header_extents(std::span<const std::byte> file, const DecodeLimits& limits);

}  // namespace trainctl::data
