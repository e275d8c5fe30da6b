#include "data/image/color.hpp"

#include "data/image/golden_pixels.hpp"
#include "data/transform/gaussian_blur.hpp"
#include "data/transform_of.hpp"
#include "spec/options/transform.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

Operation plain(void (*operation)(const ImageView&, ImageTarget&)) {
  return [operation](const Json&, const ImageView& input, ImageTarget& output) {
    operation(input, output);
  };
}

Operation with_factor(void (*operation)(const ImageView&, double, ImageTarget&)) {
  return [operation](const Json& golden, const ImageView& input, ImageTarget& output) {
    operation(input, golden["factor"], output);
  };
}

/// Returns an operation that runs in place on a copy of the picture.
Operation in_place(const Operation& operation) {
  return [operation](const Json& golden, const ImageView& input, ImageTarget& output) {
    output.copy(input);
    operation(golden, output.view(), output);
  };
}

std::map<std::string, Operation> pointwise() {
  return {{"adjust_brightness", with_factor(adjust_brightness)},
          {"adjust_contrast", with_factor(adjust_contrast)},
          {"adjust_saturation", with_factor(adjust_saturation)},
          {"adjust_hue", with_factor(adjust_hue)},
          {"to_grayscale", plain(to_grayscale)},
          {"solarize", with_factor(solarize)},
          {"posterize", [](const Json& golden, const ImageView& in,
                           ImageTarget& out) { posterize(in, golden["factor"], out); }},
          {"autocontrast", plain(autocontrast)},
          {"equalize", plain(equalize)},
          {"invert", plain(invert)}};
}

}  // namespace

TEST_CASE("color operations: pixels are bitwise equal to torchvision's") {
  std::map<std::string, Operation> operations = pointwise();
  operations["adjust_sharpness"] = with_factor(adjust_sharpness);
  check_golden("color", operations);
}

TEST_CASE("color operations: pixels are the same if the output is the input") {
  std::map<std::string, Operation> operations = pointwise();
  for (auto& [name, operation] : operations) operation = in_place(operation);
  operations["adjust_sharpness"] = with_factor(adjust_sharpness);
  check_golden("color", operations);
}

TEST_CASE("random_invert: the result is torchvision's invert or the image") {
  const auto outcomes = [](double p, const Picture& picture, const Picture& inverted) {
    const auto stage = transform_of("random_invert", spec::transform::RandomInvert{p});
    int count = 0;
    for (std::uint64_t position = 0; position < 400; ++position) {
      const Picture made = applied(*stage, picture.view(), {5, 2, position, 1});
      const bool is_inverted = distance(made, inverted) == 0;
      REQUIRE((is_inverted || distance(made, picture) == 0));
      count += is_inverted ? 1 : 0;
    }
    return count;
  };
  const Json golden = golden_transforms("color");
  std::map<std::string, Picture> pictures;
  for (const Json& one : golden["pictures"]) pictures[one["name"]] = golden_picture(one);
  for (const Json& one : golden["cases"]) {
    if (one["op"] != "invert") continue;
    INFO(one["picture"]);
    const Picture& picture = pictures.at(one["picture"]);
    const Picture inverted = golden_picture(one);
    CHECK(outcomes(1, picture, inverted) == 400);
    CHECK(outcomes(0, picture, inverted) == 0);
    const int half = outcomes(spec::transform::RandomInvert{}.p, picture, inverted);
    CHECK((half > 160 && half < 240));
  }
}

TEST_CASE("gaussian_blur: at most 1% of the bytes differ from torchvision's, by one level") {
  const auto blur = [](const Json& golden, const ImageView& input, ImageTarget& output) {
    std::vector<float> across(golden["kernel_size"][0].get<std::size_t>());
    std::vector<float> down(golden["kernel_size"][1].get<std::size_t>());
    gaussian_weights(golden["sigma"], across);
    gaussian_weights(golden["sigma"], down);
    std::vector<float> scratch;
    gaussian_blur(input, across, down, scratch, output);
  };
  check_golden("blur", {{"gaussian_blur", blur}}, {1, 0.01});
}

TEST_CASE("gaussian_blur: the buffer holds as many rows as the kernel, not the whole image") {
  const Picture tall = noise({500, 40, 3});
  std::vector<float> across(5);
  std::vector<float> down(9);
  gaussian_weights(1.5, across);
  gaussian_weights(1.5, down);
  std::vector<float> scratch;
  std::vector<std::uint8_t> pixels;
  ImageTarget whole(pixels);
  gaussian_blur(tall.view(), across, down, scratch, whole);
  CHECK(scratch.size() < 12 * 44 * 3);
  // Rows far from a cut do not depend on it.
  std::vector<std::uint8_t> part_pixels;
  ImageTarget part(part_pixels);
  gaussian_blur(tall.view().window({100, 0, 300, 40}), across, down, scratch, part);
  for (std::int64_t y = 4; y < 296; ++y)
    CHECK(std::equal(part.row(y), part.row(y) + 120, whole.row(100 + y)));
}

TEST_CASE("check_colors: images must have 1 or 3 channels") {
  CHECK_NOTHROW(check_colors({2, 2, 1}));
  CHECK_NOTHROW(check_colors({2, 2, 3}));
  CHECK_THROWS_WITH(check_colors({2, 2, 4}), Contains("3 (RGB) channels, got 4"));
}
