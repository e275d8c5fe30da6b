#include "data/core/transform.hpp"

#include "data/core/registry.hpp"
#include "data/fakes.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

#include <array>
#include <set>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

using PixelBytes = std::vector<std::byte>;

std::shared_ptr<const Transform> square_crop(int size, int padding, int fill) {
  spec::transform::RandomCrop options;
  options.size = {{size}};
  options.padding = {{padding}};
  options.fill = {{fill}};
  return builtin_catalog().transforms.at("random_crop")(
      config::make_stage("transform", "random_crop", options));
}

std::shared_ptr<const Transform> flip_with(double probability) {
  spec::transform::RandomHorizontalFlip options;
  options.p = probability;
  return builtin_catalog().transforms.at("random_horizontal_flip")(
      config::make_stage("transform", "random_horizontal_flip", options));
}

Field image_of(std::int64_t height, std::int64_t width, std::int64_t channels) {
  return {"image", Dtype::u8, {height, width, channels}};
}

PixelBytes numbered(const Field& field) {
  PixelBytes pixels(field.bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::byte>(i * 5 + 1);
  return pixels;
}

PixelBytes applied(const Transform& transform, const PixelBytes& input, const Field& from,
                   CounterRng rng) {
  const ImageShape to = transform.output(image_shape(from));
  PixelBytes output(to.bytes(), std::byte{0xEE});
  ImageTarget target(output, to);
  transform.apply({reinterpret_cast<const std::uint8_t*>(input.data()), image_shape(from)}, target,
                  rng);
  return output;
}

/// Crops like torchvision's RandomCrop: pads the whole image, then takes a window.
PixelBytes reference_crop(const PixelBytes& input, const Field& from,
                          std::array<std::int64_t, 5> how) {
  const auto [size, padding, fill, top, left] = how;
  const std::int64_t width = from.shape[1];
  const std::int64_t channels = from.shape[2];
  PixelBytes output;
  for (std::int64_t y = top; y < top + size; ++y) {
    for (std::int64_t x = left; x < left + size; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t row = y - padding;
        const std::int64_t column = x - padding;
        const bool inside = row >= 0 && row < from.shape[0] && column >= 0 && column < width;
        output.push_back(
            inside ? input[static_cast<std::size_t>((row * width + column) * channels + c)]
                   : static_cast<std::byte>(fill));
      }
    }
  }
  return output;
}

}  // namespace

TEST_CASE("random_crop: takes a window of the padded image and draws top before left") {
  const Field shapes[] = {image_of(28, 28, 1), image_of(5, 9, 3), image_of(1, 1, 2)};
  for (const Field& from : shapes) {
    const PixelBytes input = numbered(from);
    for (const int padding : {0, 1, 4, 40}) {
      const std::int64_t most = std::min(from.shape[0], from.shape[1]) + 2 * padding;
      for (const std::int64_t size : {std::int64_t{1}, most / 2 + 1, most}) {
        if (size > most) continue;
        const auto crop = square_crop(static_cast<int>(size), padding, 77);
        for (std::uint64_t position = 0; position < 20; ++position) {
          const CounterRng rng(3, 1, position, 0);
          CounterRng copy = rng;
          const auto places = [&](std::size_t axis) {
            return static_cast<std::uint64_t>(from.shape[axis] + 2 * padding - size + 1);
          };
          const auto top = static_cast<std::int64_t>(copy.below(places(0)));
          const auto left = static_cast<std::int64_t>(copy.below(places(1)));
          REQUIRE(applied(*crop, input, from, rng) ==
                  reference_crop(input, from, {size, padding, 77, top, left}));
        }
      }
    }
  }
}

TEST_CASE("random_crop: size 28 with padding 4 reaches all 81 offsets") {
  const Field from = image_of(28, 28, 1);
  const PixelBytes input = numbered(from);
  std::set<PixelBytes> seen;
  for (std::uint64_t position = 0; position < 2000; ++position) {
    seen.insert(applied(*square_crop(28, 4, 0), input, from, CounterRng(1, 0, position, 0)));
  }
  CHECK(seen.size() == 81);
}

TEST_CASE("random_crop: the error for a crop that is too large gives the largest size") {
  CHECK_THAT(
      failure_of([] {
        square_crop(37, 4, 0)->output({28, 30, 1});
      }),
      Contains("2: a crop of 37x37 pixels does not fit into an image of 28x30, padded to 36x38") &&
          Contains("set size to at most [36, 38]"));
}

TEST_CASE("random_horizontal_flip: mirrors each row and keeps the channels of a pixel in order") {
  const Field from = image_of(2, 3, 2);
  const PixelBytes input = numbered(from);
  const auto at = [&](std::initializer_list<std::size_t> places) {
    PixelBytes pixels;
    for (const std::size_t place : places) pixels.push_back(input[place]);
    return pixels;
  };
  CHECK(applied(*flip_with(1), input, from, CounterRng(0, 0, 0, 0)) ==
        at({4, 5, 2, 3, 0, 1, 10, 11, 8, 9, 6, 7}));
  CHECK(applied(*flip_with(0), input, from, CounterRng(0, 0, 0, 0)) == input);
}

TEST_CASE("random_horizontal_flip: flips with probability p") {
  const Field from = image_of(1, 2, 1);
  const PixelBytes input = numbered(from);
  const auto flip = flip_with(0.3);
  int flipped = 0;
  for (std::uint64_t position = 0; position < 10'000; ++position) {
    flipped += applied(*flip, input, from, CounterRng(0, 0, position, 0)) != input ? 1 : 0;
  }
  CHECK(std::abs(flipped - 3000) < 275);  // 6 standard deviations
}
