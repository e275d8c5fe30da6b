#include "data/image/pad.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstring>

namespace trainctl::data {
namespace {

using spec::transform::PaddingMode;

/// Where the pixel `at` comes from, along one axis; -1: from the fill.
std::int64_t source_of(std::int64_t at, std::int64_t extent, PaddingMode mode) {
  if (at >= 0 && at < extent) return at;
  switch (mode) {
    case PaddingMode::constant: return -1;
    case PaddingMode::edge: return std::clamp<std::int64_t>(at, 0, extent - 1);
    case PaddingMode::reflect: return at < 0 ? -at : 2 * (extent - 1) - at;
    case PaddingMode::symmetric: return at < 0 ? -at - 1 : 2 * extent - 1 - at;
  }
  return -1;
}

}  // namespace

Fill::Fill(const std::vector<int>& values) : values_(values.begin(), values.end()) {
  ENSURE(config, !values.empty(), "fill is an empty list; give one value, or one for each channel");
}

void Fill::check(std::int64_t channels) const {
  ENSURE(config, uniform() || std::ssize(values_) == channels,
         "fill has {} values and the images have {} channel(s); give one value, or one for each channel",
         values_.size(), channels);
}

void Fill::paint(std::uint8_t* to, std::int64_t count, std::int64_t channels) const {
  if (uniform()) {
    std::memset(to, values_[0], static_cast<std::size_t>(count * channels));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) to = std::copy(values_.begin(), values_.end(), to);
}

void crop_padded(const ImageView& input, const Box& window, const Outside& outside, ImageTarget& output) {
  const auto [height, width, channels] = input.shape;
  output.resize({window.height, window.width, channels});
  const std::int64_t begin = std::clamp<std::int64_t>(-window.left, 0, window.width);  // columns before the image
  const std::int64_t end = std::clamp<std::int64_t>(width - window.left, begin, window.width);  // and where it ends
  const auto inner = static_cast<std::size_t>((end - begin) * channels);
  for (std::int64_t y = 0; y < window.height; ++y) {
    std::uint8_t* to = output.row(y);
    const std::int64_t row = source_of(window.top + y, height, outside.mode);
    if (row < 0) {
      outside.fill.paint(to, window.width, channels);
      continue;
    }
    const std::uint8_t* from = input.row(row);
    const auto margin = [&](std::int64_t first, std::int64_t last) {
      if (outside.mode == PaddingMode::constant) {
        return outside.fill.paint(to + first * channels, last - first, channels);
      }
      for (std::int64_t x = first; x < last; ++x) {
        std::copy_n(from + source_of(window.left + x, width, outside.mode) * channels, channels, to + x * channels);
      }
    };
    if (begin > 0) margin(0, begin);
    if (inner > 0) std::memcpy(to + begin * channels, from + (window.left + begin) * channels, inner);
    if (end < window.width) margin(end, window.width);
  }
}

}  // namespace trainctl::data
