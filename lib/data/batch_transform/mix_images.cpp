#include "data/batch_transform/mix_images.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl::data {
namespace {

void blend(std::uint16_t own, std::int64_t bytes, std::uint8_t* __restrict one,
           std::uint8_t* __restrict other) {
  const auto rest = static_cast<std::uint16_t>(kMixSteps - own);
  for (std::int64_t i = 0; i < bytes; ++i) {
    // At most 255 * 256 + 128: 16 bits hold it.
    const auto a = static_cast<std::uint16_t>(one[i] * own + other[i] * rest + kMixSteps / 2);
    const auto b = static_cast<std::uint16_t>(other[i] * own + one[i] * rest + kMixSteps / 2);
    one[i] = static_cast<std::uint8_t>(a / kMixSteps);
    other[i] = static_cast<std::uint8_t>(b / kMixSteps);
  }
}

}  // namespace

Box cutmix_box(double lambda, std::int64_t x, std::int64_t y, const ImageShape& image) {
  const double half = 0.5 * std::sqrt(1 - lambda);
  const auto across = static_cast<std::int64_t>(half * static_cast<double>(image.width));
  const auto down = static_cast<std::int64_t>(half * static_cast<double>(image.height));
  const std::int64_t left = std::max<std::int64_t>(x - across, 0);
  const std::int64_t top = std::max<std::int64_t>(y - down, 0);
  return {top, left, std::min(y + down, image.height) - top,
          std::min(x + across, image.width) - left};
}

void mix_images(const Mix& mix, const ImageShape& image, std::uint8_t* one, std::uint8_t* other) {
  if (mix.own != kMixSteps) {
    blend(static_cast<std::uint16_t>(mix.own), static_cast<std::int64_t>(image.bytes()), one,
          other);
  }
  const std::int64_t bytes = mix.swapped.width * image.channels;
  for (std::int64_t y = mix.swapped.top; y < mix.swapped.top + mix.swapped.height; ++y) {
    const std::int64_t at = (y * image.width + mix.swapped.left) * image.channels;
    std::swap_ranges(one + at, one + at + bytes, other + at);
  }
}

}  // namespace trainctl::data
