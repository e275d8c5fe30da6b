#include "data/image/codec/jpeg.hpp"

#include <algorithm>

namespace trainctl::data {

// Markers: FF and a code. FF 00 is an FF among the compressed data; D0 to D7 divide it; all others
// but 01, D8 and D9 begin a segment with its length, whose content (a thumbnail, say) may look like
// markers.
std::int64_t count_jpeg_scans(std::span<const std::byte> file, std::int64_t most) {
  constexpr std::byte kMarker{0xFF};
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(file[i]); };
  std::int64_t scans = 0;
  std::size_t i = 2;
  while (i + 3 < file.size() && scans <= most) {
    if (file[i] != kMarker) {
      i = static_cast<std::size_t>(
          std::find(file.begin() + static_cast<std::ptrdiff_t>(i), file.end(), kMarker) -
          file.begin());
      continue;
    }
    const unsigned code = at(i + 1);
    if (code == 0xD9) break;
    if (code == 0xFF) {
      i += 1;
    } else if (code <= 0x01 || (code >= 0xD0 && code <= 0xD8)) {
      i += 2;
    } else {
      scans += code == 0xDA ? 1 : 0;
      i += 2 + at(i + 2) * 256 + at(i + 3);
    }
  }
  return scans;
}

}  // namespace trainctl::data
