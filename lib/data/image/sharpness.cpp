#include "data/image/sharpness.hpp"

#include <algorithm>

namespace trainctl::data {
namespace {

/// The weights are 1 around a 5, over 13. No sum lies halfway between two levels, so rounding is
/// unambiguous.
int smoothed(const std::uint8_t* above, const std::uint8_t* here, const std::uint8_t* below,
             std::int64_t step) {
  const int around = above[-step] + above[0] + above[step] + here[-step] + here[step] +
                     below[-step] + below[0] + below[step];
  return (2 * (around + 5 * here[0]) + 13) / 26;
}

}  // namespace

void adjust_sharpness(const ImageView& input, double factor, ImageTarget& output) {
  output.copy(input);
  const auto [height, width, channels] = input.shape;
  const auto other = static_cast<float>(1.0 - factor);
  for (std::int64_t y = 1; y + 1 < height; ++y) {
    std::uint8_t* to = output.row(y);
    for (std::int64_t i = channels; i < (width - 1) * channels; ++i) {
      const int smooth =
          smoothed(input.row(y - 1) + i, input.row(y) + i, input.row(y + 1) + i, channels);
      const auto own = static_cast<float>(input.row(y)[i]);
      const float value = own + (static_cast<float>(smooth) - own) * other;
      to[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
    }
  }
}

}  // namespace trainctl::data
