#include "data/image/sharpness.hpp"

#include "data/image/pixel_math.hpp"

namespace trainctl::data {

void adjust_sharpness(const ImageView& input, double factor, ImageTarget& output) {
  static const BlendKernels& kernels = blend_kernels().back();
  output.copy(input);
  const auto [height, width, channels] = input.shape;
  const auto other = static_cast<float>(1.0 - factor);
  for (std::int64_t y = 1; y + 1 < height && width > 2; ++y) {
    const RowsToSharpen rows{input.row(y - 1) + channels, input.row(y) + channels,
                             input.row(y + 1) + channels, channels};
    kernels.sharpen(rows, (width - 2) * channels, other, output.row(y) + channels);
  }
}

}  // namespace trainctl::data
