#include "base/random.hpp"
#include "data/core/registry.hpp"
#include "data/fakes.hpp"
#include "data/image/color.hpp"
#include "data/image/warp.hpp"
#include "data/transform/parameters.hpp"
#include "support/catch.hpp"
#include "support/stage.hpp"

#include <array>
#include <set>
#include <utility>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

using Pixels = std::vector<std::uint8_t>;

std::shared_ptr<const Transform> transform(const std::string& type, const std::string& options) {
  return builtin_catalog().transforms.at(type)(stage_from("transform", type, options));
}

Pixels picture(const ImageShape& shape) {
  Pixels pixels(shape.bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(i * 37 + i * i / 11);
  return pixels;
}

/// Transforms the picture at one position; the output buffer is initially filled with `before`.
Pixels applied_at(const Transform& transform, const ImageShape& shape, std::uint64_t position,
                  std::uint8_t before) {
  const Pixels input = picture(shape);
  Pixels scratch(4 * shape.bytes() + 64, before);
  ImageTarget output(scratch);
  CounterRng rng(5, 2, position, 1);
  transform.apply({input.data(), shape}, output, rng);
  return {output.pixels(), output.pixels() + output.shape().bytes()};
}

const std::vector<std::pair<std::string, std::string>> kStages{
    {"auto_augment", "{}"},
    {"auto_augment", "{policy: svhn, interpolation: bilinear, fill: 40}"},
    {"color_jitter", "{brightness: 0.4, contrast: 0.4, saturation: [0.2, 1.9], hue: 0.1}"},
    {"gaussian_blur", "{kernel_size: [5, 3]}"},
    {"rand_augment", "{num_ops: 3, magnitude: 20}"},
    {"random_affine",
     "{degrees: 30, translate: [0.2, 0.1], scale: [0.7, 1.4], shear: [-20, 20, -10, 10]}"},
    {"random_crop", "{size: [9, 12], padding: [1, 2, 3, 4], padding_mode: reflect}"},
    {"random_erasing", "{p: 0.9}"},
    {"random_grayscale", "{p: 0.5}"},
    {"random_horizontal_flip", "{}"},
    {"random_invert", "{}"},
    {"random_perspective", "{p: 0.8, fill: 3}"},
    {"random_rotation", "{degrees: [-40, 90], expand: true}"},
    {"random_vertical_flip", "{}"},
    {"trivial_augment_wide", "{}"},
};

}  // namespace

TEST_CASE(
    "transforms: the output depends only on the image and the counter, and every byte is written") {
  for (const auto& [type, options] : kStages) {
    INFO(type << " " << options);
    const auto stage = transform(type, options);
    CHECK(stage->random());
    for (const ImageShape& shape : {ImageShape{13, 17, 3}, ImageShape{16, 11, 1}}) {
      std::set<Pixels> seen;
      for (std::uint64_t position = 0; position < 60; ++position) {
        const Pixels once = applied_at(*stage, shape, position, 0xEE);
        REQUIRE(once == applied_at(*stage, shape, position, 0x11));
        const ImageShape fixed = stage->output(shape);
        if (fixed.fixed()) REQUIRE(once.size() == fixed.bytes());
        seen.insert(once);
      }
      const bool gray_stays_gray = type == "random_grayscale" && shape.channels == 1;
      CHECK((seen.size() > 1) != gray_stays_gray);
    }
  }
}

TEST_CASE("color_jitter: draws the order, then brightness, contrast, saturation and hue") {
  const ImageShape shape{13, 17, 3};
  const auto stage =
      transform("color_jitter", "{brightness: 0.4, contrast: [0.5, 1.5], saturation: 2, hue: 0.1}");
  using Adjust = void (*)(const ImageView&, double, ImageTarget&);
  const std::array<Adjust, 4> adjust{adjust_brightness, adjust_contrast, adjust_saturation,
                                     adjust_hue};
  for (std::uint64_t position = 0; position < 30; ++position) {
    CounterRng rng(5, 2, position, 1);
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    std::swap(order[3], order[rng.below(4)]);
    std::swap(order[2], order[rng.below(3)]);
    std::swap(order[1], order[rng.below(2)]);
    std::array<double, 4> factors{};
    factors[0] = draw_between(rng, 0.6, 1.4);
    factors[1] = draw_between(rng, 0.5, 1.5);
    factors[2] = draw_between(rng, 0, 3);
    factors[3] = draw_between(rng, -0.1, 0.1);
    Pixels pixels = picture(shape);
    ImageTarget image(pixels);
    image.resize(shape);
    for (const std::size_t i : order) adjust[i](image.view(), factors[i], image);
    CHECK(applied_at(*stage, shape, position, 0) == pixels);
  }
}

TEST_CASE("color_jitter and rand_augment: without any operation the image is unchanged") {
  CHECK(applied_at(*transform("color_jitter", "{}"), {13, 17, 3}, 3, 0) == picture({13, 17, 3}));
  CHECK(applied_at(*transform("rand_augment", "{num_ops: 0}"), {13, 17, 3}, 3, 0) ==
        picture({13, 17, 3}));
}

TEST_CASE("random_erasing: the erased area is within the limits of 'scale'") {
  const ImageShape shape{40, 30, 1};
  const auto stage =
      transform("random_erasing", "{p: 1, scale: [0.1, 0.2], ratio: [0.5, 2], value: 255}");
  const Pixels input = picture(shape);
  for (std::uint64_t position = 0; position < 100; ++position) {
    const Pixels output = applied_at(*stage, shape, position, 0);
    int erased = 0;
    for (std::size_t i = 0; i < output.size(); ++i)
      erased += output[i] == 255 && input[i] != 255 ? 1 : 0;
    CHECK(erased > 0.08 * 1200);
    CHECK(erased < 0.22 * 1200);
  }
}

TEST_CASE("random_crop: pad_if_needed gives the requested size, and 'fill' must fit the channels") {
  const auto stage =
      transform("random_crop", "{size: [20, 8], pad_if_needed: true, fill: [1, 2, 3]}");
  CHECK(stage->output({13, 17, 3}) == ImageShape{20, 8, 3});
  CHECK(applied_at(*stage, {13, 17, 3}, 1, 0).size() == 20 * 8 * 3);
  CHECK_THAT(failure_of([&] { stage->output({13, 17, 1}); }), Contains("fill has 3 values"));
}

TEST_CASE(
    "random_crop: is a CropTransform only without padding, and pad_if_needed draws the same box") {
  const auto plain = transform("random_crop", "{size: 8}");
  const auto* crop = dynamic_cast<const CropTransform*>(plain.get());
  REQUIRE(crop != nullptr);
  CHECK(dynamic_cast<const CropTransform*>(
            transform("random_crop", "{size: 8, padding: 1}").get()) == nullptr);
  const auto padded = transform("random_crop", "{size: 8, pad_if_needed: true}");
  for (std::uint64_t position = 0; position < 50; ++position) {
    CHECK(applied_at(*plain, {13, 17, 3}, position, 0) ==
          applied_at(*padded, {13, 17, 3}, position, 0));
  }
}

TEST_CASE("random_rotation: the size of the output is open with expand") {
  const auto stage = transform("random_rotation", "{degrees: [30, 30], expand: true}");
  CHECK(stage->output({13, 17, 3}) == ImageShape{0, 0, 3});
}

TEST_CASE(
    "random_rotation: an image that is too large after expanding is a data error with a hint") {
  const auto stage = transform("random_rotation", "{degrees: [45, 45], expand: true}");
  CHECK_THAT(failure_of([&] {
               applied_at(*stage, {1, 200'000, 1}, 0, 0);
             }),
             Contains("9: an image of 200000x1 pixels would become 141424x141423 when "
                      "rotated"));
  CHECK_THAT(failure_of([&] {
               applied_at(*stage, {1, 200'000, 1}, 0, 0);
             }),
             Contains("set expand: false"));
}

TEST_CASE(
    "random_perspective: a side of one pixel is a data error unless p is 0, and 3x3 pixels "
    "suffice") {
  const auto stage = transform("random_perspective", "{p: 1, distortion_scale: 1, fill: 7}");
  for (const ImageShape& shape : {ImageShape{1, 9, 3}, {9, 1, 3}, {1, 1, 3}}) {
    CHECK_THAT(failure_of([&] { applied_at(*stage, shape, 0, 0); }),
               Contains("9: cannot change the perspective of an image of "));
  }
  for (std::uint64_t position = 0; position < 300; ++position)
    CHECK_NOTHROW(applied_at(*stage, {3, 3, 3}, position, 0));
  const auto never = transform("random_perspective", "{p: 0}");
  CHECK(applied_at(*never, {1, 9, 3}, 0, 0) == picture({1, 9, 3}));
}

TEST_CASE("transforms: an invalid option is an error that names the option") {
  const std::vector<std::array<std::string, 3>> mistakes{
      {"random_crop", "{size: [1, 2, 3]}", "size must have 1 or 2 values, got 3"},
      {"random_crop", "{size: 4, padding: [1, 2, 3]}", "padding must have 1, 2 or 4 values, got 3"},
      {"random_crop", "{size: 4, fill: 256}", "fill"},
      {"random_erasing", "{value: random}", "'value' must be"},
      {"random_erasing", "{scale: [0.5, 0.1]}", "[smallest, largest]"},
      {"color_jitter", "{brightness: [1.2, 0.8]}", "must be [smallest, largest], got [1.2, 0.8]"},
      {"color_jitter", "{hue: -0.1}", "hue must be a nonnegative number"},
      {"color_jitter", "{hue: 0.7}", "hue"},
      {"gaussian_blur", "{kernel_size: 4}", "kernel_size must be odd, got 4x4"},
      {"gaussian_blur", "{kernel_size: 3, sigma: [2, 1]}", "[smallest, largest]"},
      {"random_rotation", "{degrees: -5}", "degrees must not be negative"},
      {"random_affine", "{degrees: 5, shear: [1, 2, 3]}",
       "shear must have 1, 2 or 4 values, got 3"},
      {"random_affine", "{degrees: 5, scale: [2, 1]}", "[smallest, largest]"},
      {"random_affine", "{degrees: 1e308}", "degrees"},
      {"random_affine", "{degrees: 5, scale: [1, 1e300]}", "scale"},
      {"random_affine", "{degrees: 5, center: [1e300, 0]}", "center"},
      {"random_rotation", "{degrees: 3601}", "degrees"},
      {"random_rotation", "{degrees: 5, center: [0, -1e300]}", "center"},
      {"random_erasing", "{ratio: [1e300, 1e300]}", "ratio"},
      {"random_erasing", "{ratio: [1e-300, 1]}", "ratio"},
      {"random_resized_crop", "{size: 4, scale: [2, 3]}", "scale"},
      {"random_resized_crop", "{size: 4, scale: [1e300, 1e300]}", "scale"},
      {"random_resized_crop", "{size: 4, ratio: [1, 1e300]}", "ratio"},
      {"color_jitter", "{saturation: 1e300}", "saturation"},
      {"gaussian_blur", "{kernel_size: 3, sigma: 1e-300}", "sigma"},
      {"rand_augment", "{magnitude: 31}",
       "magnitude must be below num_magnitude_bins (31), got 31"},
      {"trivial_augment_wide", "{num_magnitude_bins: 1}", "num_magnitude_bins"},
  };
  for (const auto& [type, options, message] : mistakes) {
    INFO(type << " " << options);
    CHECK_THAT(failure_of([&, &type = type, &options = options] { transform(type, options); }),
               Contains(message));
  }
}

TEST_CASE("normalize: values beyond the range of float32 are errors") {
  const auto error_of = [](const std::string& options) {
    return failure_of([&] { stage_from("transform", "normalize", options); });
  };
  CHECK(error_of("{mean: [0.5], std: [1e-6]}").empty());
  CHECK_THAT(error_of("{mean: [0.5], std: [1e-50]}"), Contains("std"));
  CHECK_THAT(error_of("{mean: [-1e300], std: [1]}"), Contains("mean"));
}

TEST_CASE(
    "transforms: an unsuitable image is a config error in output() and a data error in apply()") {
  CHECK_THAT(failure_of([] {
               transform("color_jitter", "{hue: 0.1}")->output({4, 4, 2});
             }),
             Contains("3 (RGB) channels, got 2"));
  const auto blur = transform("gaussian_blur", "{kernel_size: 9}");
  CHECK_THAT(failure_of([&] {
               blur->output({4, 40, 3});
             }),
             Contains("2: a kernel of 9x9 pixels is too large"));
  CHECK_THAT(failure_of([&] {
               applied_at(*blur, {4, 40, 3}, 0, 0);
             }),
             Contains("9: a kernel of 9x9 pixels is too large"));
  const auto crop = transform("random_crop", "{size: 8, padding: 6, padding_mode: reflect}");
  CHECK_THAT(failure_of([&] {
               crop->output({6, 40, 3});
             }),
             Contains("2: an image of 6x40 pixels is too small to mirror"));
  CHECK_THAT(failure_of([&] {
               applied_at(*crop, {6, 40, 3}, 0, 0);
             }),
             Contains("9: an image of 6x40 pixels is too small to mirror"));
  CHECK_THAT(failure_of([&] {
               applied_at(*transform("random_crop", "{size: 8}"), {6, 40, 3}, 0, 0);
             }),
             Contains("9: a crop of 8x8 pixels does not fit into this image of 6x40"));
}
