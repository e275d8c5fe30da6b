#include "data/image/pixel_math.hpp"

#include "data/image/golden_pixels.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

TEST_CASE("blend kernels: every kernel is bitwise equal to the portable one, also in place") {
  const std::span<const BlendKernels> all = blend_kernels();
  const BlendKernels& portable = all.front();
  for (const std::int64_t pixels : {1, 2, 7, 31, 255, 256, 257, 700}) {
    const Picture input = noise({3, pixels + 2, 3});
    const std::uint8_t* here = input.view().row(1);
    const auto bytes = static_cast<std::size_t>(3 * pixels);
    for (const BlendKernels& kernels : all) {
      for (const double factor : {0.0, 0.3, 1.0000001, 1.6, 2.5, 1000.0}) {
        INFO(kernels.name << ", " << pixels << " pixels, factor " << factor);
        const Blend blend(factor);
        std::vector<std::uint8_t> expected(bytes);
        std::vector<std::uint8_t> found(here, here + bytes);
        portable.saturate(here, pixels, blend, expected.data());
        kernels.saturate(found.data(), pixels, blend, found.data());
        CHECK(found == expected);
        const RowsToSharpen rows{input.view().row(0) + 3, here + 3, input.view().row(2) + 3, 3};
        portable.sharpen(rows, 3 * pixels, blend.other, expected.data());
        kernels.sharpen(rows, 3 * pixels, blend.other, found.data());
        CHECK(found == expected);
      }
      std::vector<std::uint8_t> expected(bytes);
      std::vector<std::uint8_t> found(here, here + bytes);
      portable.gray(here, pixels, expected.data());
      kernels.gray(found.data(), pixels, found.data());
      CHECK(found == expected);
      CHECK(kernels.sum_of_luma(here, pixels) == portable.sum_of_luma(here, pixels));
    }
  }
}

TEST_CASE("blend kernels: gray() equals torch where a separate rounding differs by one level") {
  // This is one of the 21 colors, of 2^24, with such a difference.
  const std::uint8_t pixel[3] = {20, 152, 7};
  for (const BlendKernels& kernels : blend_kernels()) {
    std::uint8_t gray[3];
    kernels.gray(pixel, 1, gray);
    CHECK(gray[0] == 96);
  }
}
