#include "data/image/resize.hpp"

#include "data/image/golden_pixels.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

ResizePlan whole(const ImageShape& from, const ImageShape& to) {
  return {ResizeAxis::whole(from.height, to.height), ResizeAxis::whole(from.width, to.width)};
}

Picture resized(const ImageView& image, const ImageShape& to, const ResizeKernels& kernels) {
  Picture out{to, std::vector<std::uint8_t>(to.bytes())};
  resize(image, whole(image.shape, to), out.pixels.data(), kernels);
  return out;
}

}  // namespace

TEST_CASE("resize: every kernel differs from torchvision by at most one level") {
  for (const Json& golden : golden_cases("images", "resize")) {
    const Picture expected = golden_picture(golden);
    const Picture input = noise(shape_of(golden["input"]));
    for (const ResizeKernels& kernels : resize_kernels()) {
      INFO(golden["input"] << " to " << golden["shape"] << " by " << kernels.name);
      CHECK(distance(resized(input.view(), expected.shape, kernels), expected) <= 1);
    }
  }
}

TEST_CASE("resize: every kernel is bitwise equal to the scalar one, for any shape") {
  std::uint32_t state = 1;
  const auto below = [&](std::uint32_t bound) {
    state = state * 1664525U + 1013904223U;
    return static_cast<std::int64_t>((state >> 8) % bound);
  };
  for (int round = 0; round < 150; ++round) {
    const ImageShape from{1 + below(120), 1 + below(120), 1 + below(4)};
    const ImageShape to{1 + below(60), 1 + below(60), from.channels};
    const Picture input = noise(from);
    const Picture expected = resized(input.view(), to, scalar_resize());
    for (const ResizeKernels& kernels : resize_kernels()) {
      INFO(from.height << "x" << from.width << "x" << from.channels << " to " << to.height << "x"
                       << to.width << " by " << kernels.name);
      REQUIRE(resized(input.view(), to, kernels).pixels == expected.pixels);
    }
  }
}

TEST_CASE("resize: a constant image and an unchanged size are kept exactly") {
  Picture white = noise({50, 70, 3});
  CHECK(resized(white.view(), white.shape, resize_kernels().back()).pixels == white.pixels);
  std::fill(white.pixels.begin(), white.pixels.end(), std::uint8_t{255});
  for (const std::int64_t size : {1, 3, 33, 200}) {
    const Picture out = resized(white.view(), {size, size, 3}, resize_kernels().back());
    CHECK(std::all_of(out.pixels.begin(), out.pixels.end(),
                      [](std::uint8_t pixel) { return pixel == 255; }));
  }
}

TEST_CASE("resize: a part equals that part of the whole and reads only its box") {
  const Picture input = noise({75, 100, 3});
  const ImageShape to{32, 43, 3};
  const Picture all = resized(input.view(), to, scalar_resize());
  const ResizePlan plan{{75, 32, 4, 24}, {100, 43, 9, 24}};
  const Box box = resize_box(plan);
  CHECK(box.height < 75);
  CHECK(box.width < 70);
  Picture part{{24, 24, 3}, std::vector<std::uint8_t>(24 * 24 * 3)};
  resize(input.view().window(box), plan, part.pixels.data());
  for (std::int64_t y = 0; y < 24; ++y) {
    const ImageView expected = all.view().window({4 + y, 9, 1, 24});
    CHECK(std::equal(expected.pixels, expected.pixels + 72, part.view().row(y)));
  }
}
