#include "data/image/codec/header_claim.hpp"

#include "base/error.hpp"
#include "data/image/codec/header_bytes.hpp"
#include "data/image/codec/tiff_header.hpp"

#include <cstdlib>

namespace trainctl::data {
namespace {

Extents webp_extents(const HeaderBytes& header) {
  constexpr std::uint32_t kAnimated = 0x02;
  if (header.holds(12, "VP8X")) {
    ENSURE(data, (header.number(20, 1) & kAnimated) == 0,
           "not supported: an animated WebP; convert it to a still image");
    return {header.number(27, 3) + 1, header.number(24, 3) + 1};
  }
  if (header.holds(12, "VP8L")) {
    const std::uint32_t bits = header.number(21, 4);
    return {(bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1};
  }
  ENSURE(data, header.holds(12, "VP8 "), "damaged WebP: it begins with no known chunk");
  return {header.number(28, 2) & 0x3FFF, header.number(26, 2) & 0x3FFF};
}

/// Rows of pixels without compression fill words of 4 bytes.
void check_bmp_rows(const Extents& image, std::uint32_t bits, std::size_t file_bytes) {
  const auto width = static_cast<std::uint64_t>(image.width);
  check_size("BMP", image, (width * bits + 31) / 32 * 4, file_bytes);
}

Extents bmp_extents(const HeaderBytes& header, const DecodeLimits& limits) {
  constexpr std::uint32_t kOldHeader = 12;
  enum : std::uint32_t { kPlain = 0, kMasks = 3 };
  Extents image;
  std::uint32_t bits = 0;
  std::uint32_t compression = kPlain;
  if (header.number(14, 4) == kOldHeader) {
    image = {header.number(20, 2), header.number(18, 2)};
    bits = header.number(24, 2);
  } else {
    // A height below 0: from top to bottom.
    image = {std::abs(std::int64_t{static_cast<std::int32_t>(header.number(22, 4))}),
             static_cast<std::int32_t>(header.number(18, 4))};
    bits = header.number(28, 2);
    compression = header.number(30, 4);
  }
  check_extents(image.height, image.width, limits);
  if (compression == kPlain || compression == kMasks) check_bmp_rows(image, bits, header.size());
  return image;
}

}  // namespace

void check_size(const char* format, const Extents& image, std::uint64_t row_bytes,
                std::size_t file_bytes) {
  ENSURE(data, row_bytes <= file_bytes / static_cast<std::uint64_t>(image.height),
         "the {} claims {}x{} pixels without compression, which do not fit into {} bytes: it is "
         "cut off or forged",
         format, image.width, image.height, file_bytes);
}

ClaimedImage header_claim(std::span<const std::byte> file, const DecodeLimits& limits) {
  const HeaderBytes little(file, ByteOrder::little);
  ClaimedImage claim;
  if (little.holds(0, "RIFF")) {
    claim.stored = webp_extents(little);
    check_extents(claim.stored.height, claim.stored.width, limits);
    return claim;
  }
  if (little.holds(0, "BM")) {
    claim.stored = bmp_extents(little, limits);
    return claim;
  }
  const HeaderBytes big(file, ByteOrder::big);
  return tiff_claim(little.holds(0, "II") ? little : big, limits);
}

}  // namespace trainctl::data
