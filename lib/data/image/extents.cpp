#include "data/image/extents.hpp"

#include "base/error.hpp"

#include <cstring>
#include <string_view>

namespace trainctl::data {
namespace {

enum class ByteOrder { little, big };

/// Numbers within a file; one beyond its end is Error(data).
class Header {
 public:
  Header(std::span<const std::byte> file, ByteOrder order) : file_(file), order_(order) {}

  [[nodiscard]] std::uint32_t number(std::size_t at, std::size_t bytes) const {
    ENSURE(data, at <= file_.size() && bytes <= file_.size() - at,
           "damaged image: its header points to byte {}, and the file has {}", at + bytes - 1,
           file_.size());
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      const std::size_t place = order_ == ByteOrder::little ? bytes - 1 - i : i;
      value = value << 8 | std::to_integer<std::uint32_t>(file_[at + place]);
    }
    return value;
  }
  [[nodiscard]] bool holds(std::size_t at, std::string_view text) const {
    return file_.size() >= at + text.size() &&
           std::memcmp(file_.data() + at, text.data(), text.size()) == 0;
  }

 private:
  std::span<const std::byte> file_;
  ByteOrder order_;
};

Extents webp_extents(const Header& header) {
  if (header.holds(12, "VP8X")) return {header.number(27, 3) + 1, header.number(24, 3) + 1};
  if (header.holds(12, "VP8L")) {
    const std::uint32_t bits = header.number(21, 4);
    return {(bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1};
  }
  ENSURE(data, header.holds(12, "VP8 "), "damaged WebP: it begins with no known chunk");
  return {header.number(28, 2) & 0x3FFF, header.number(26, 2) & 0x3FFF};
}

Extents bmp_extents(const Header& header) {
  constexpr std::uint32_t kOldHeader = 12;
  if (header.number(14, 4) == kOldHeader) return {header.number(20, 2), header.number(18, 2)};
  const auto height =
      static_cast<std::int32_t>(header.number(22, 4));  // below 0: from top to bottom
  return {height < 0 ? -std::int64_t{height} : height,
          static_cast<std::int32_t>(header.number(18, 4))};
}

/// Of the first page: entries of tag, type, count and value, 12 bytes each.
Extents tiff_extents(const Header& header, const DecodeLimits& limits) {
  enum : std::uint32_t {
    kWidth = 256,
    kHeight = 257,
    kTileWidth = 322,
    kTileHeight = 323,
    kShort = 3
  };
  const std::size_t page = header.number(4, 4);
  Extents image;
  Extents tile{1, 1};
  for (std::uint32_t i = 0; i < header.number(page, 2); ++i) {
    const std::size_t entry = page + 2 + std::size_t{12} * i;
    const std::uint32_t value =
        header.number(entry + 8, header.number(entry + 2, 2) == kShort ? 2 : 4);
    switch (header.number(entry, 2)) {
      case kWidth: image.width = value; break;
      case kHeight: image.height = value; break;
      case kTileWidth: tile.width = value; break;
      case kTileHeight: tile.height = value; break;
      default: break;
    }
  }
  check_extents(tile.height, tile.width, limits);
  return image;
}

}  // namespace

Extents header_extents(std::span<const std::byte> file, const DecodeLimits& limits) {
  const Header little(file, ByteOrder::little);
  Extents found;
  if (little.holds(0, "RIFF")) {
    found = webp_extents(little);
  } else if (little.holds(0, "BM")) {
    found = bmp_extents(little);
  } else {
    found = tiff_extents(little.holds(0, "II") ? little : Header(file, ByteOrder::big), limits);
  }
  check_extents(found.height, found.width, limits);
  return found;
}

}  // namespace trainctl::data
