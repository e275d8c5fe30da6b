#include "data/image/warp.hpp"

#include "base/random.hpp"
#include "data/image/golden_pixels.hpp"
#include "data/transform/auto_augment.hpp"

#include <limits>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

using spec::transform::AutoAugmentPolicy;
using spec::transform::Interpolation;

Sampling sampling_of(const Json& golden) {
  Sampling sampling;
  sampling.interpolation =
      golden["mode"] == "nearest" ? Interpolation::nearest : Interpolation::bilinear;
  if (!golden["fill"].is_null()) sampling.fill = Fill(golden["fill"]);
  return sampling;
}

double tangent(double degrees) {
  const SinCos angle = sin_cos_degrees(degrees);
  return angle.sin / angle.cos;
}

void golden_rotate(const Json& golden, const ImageView& input, ImageTarget& output) {
  Rotation rotation{
      golden["angle"], golden["expand"].get<bool>() ? Frame::expanded : Frame::kept, {}};
  if (golden.contains("center")) rotation.center = {golden["center"][0], golden["center"][1]};
  rotate(input, rotation, sampling_of(golden), output);
}

void golden_affine(const Json& golden, const ImageView& input, ImageTarget& output) {
  AffineMotion motion;
  motion.degrees = golden["angle"];
  motion.translate_x = golden["translate"][0];
  motion.translate_y = golden["translate"][1];
  motion.scale = golden["scale"];
  motion.shear_x = tangent(golden["shear"][0]);
  motion.shear_y = tangent(golden["shear"][1]);
  if (!golden["center"].is_null()) {
    motion.center_x =
        golden["center"][0].get<double>() - 0.5 * static_cast<double>(input.shape.width);
    motion.center_y =
        golden["center"][1].get<double>() - 0.5 * static_cast<double>(input.shape.height);
  }
  warp_affine(input, inverse_of(motion), input.shape, sampling_of(golden), output);
}

void golden_perspective(const Json& golden, const ImageView& input, ImageTarget& output) {
  std::array<Point, 4> corners;
  for (std::size_t i = 0; i < 4; ++i)
    corners[i] = {golden["corners"][i][0], golden["corners"][i][1]};
  warp_perspective(input, perspective_of(input.shape, corners).value(), sampling_of(golden),
                   output);
}

const std::map<std::string, AugmentOp> kOps{{"identity", AugmentOp::identity},
                                            {"shear_x", AugmentOp::shear_x},
                                            {"shear_y", AugmentOp::shear_y},
                                            {"translate_x", AugmentOp::translate_x},
                                            {"translate_y", AugmentOp::translate_y},
                                            {"rotate", AugmentOp::rotate},
                                            {"brightness", AugmentOp::brightness},
                                            {"color", AugmentOp::color},
                                            {"contrast", AugmentOp::contrast},
                                            {"sharpness", AugmentOp::sharpness},
                                            {"posterize", AugmentOp::posterize},
                                            {"solarize", AugmentOp::solarize},
                                            {"auto_contrast", AugmentOp::auto_contrast},
                                            {"equalize", AugmentOp::equalize},
                                            {"invert", AugmentOp::invert}};

}  // namespace

TEST_CASE(
    "warp: nearest is bitwise equal to torchvision's, and bilinear differs in 1% of the bytes") {
  check_golden(
      "warp",
      {{"rotate", golden_rotate}, {"affine", golden_affine}, {"perspective", golden_perspective}},
      {1, 0.01});
}

TEST_CASE("augment: at most 1% of the bytes differ from torchvision's, by one level") {
  const auto run = [](const Json& golden, const ImageView& input, ImageTarget& output) {
    augment(input, kOps.at(golden["kind"]), golden["magnitude"], sampling_of(golden), output);
  };
  check_golden("augment", {{"augment", run}}, {1, 0.01});
}

TEST_CASE("magnitude: values are bitwise equal to torchvision's") {
  const Json file = golden_transforms("augment");
  REQUIRE(file["spaces"].size() > 40);
  for (const Json& golden : file["spaces"]) {
    INFO(golden.dump());
    const AugmentOp op = kOps.at(golden["op"]);
    const AugmentSpace space =
        golden["space"] == "wide" ? AugmentSpace::wide : AugmentSpace::standard;
    CHECK((magnitude_kind(op) == MagnitudeKind::none) == golden["values"].is_null());
    CHECK((magnitude_kind(op) == MagnitudeKind::either_sign) == golden["signed"].get<bool>());
    if (golden["values"].is_null()) continue;
    const std::int64_t bins = golden["bins"];
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      CHECK(magnitude(space, op, {bin, bins}, {33, 47, 3}) ==
            golden["values"][static_cast<std::size_t>(bin)]);
    }
  }
}

TEST_CASE("auto_policies: operations and probabilities are those of torchvision") {
  const std::map<std::string, AutoAugmentPolicy> names{{"imagenet", AutoAugmentPolicy::imagenet},
                                                       {"cifar10", AutoAugmentPolicy::cifar10},
                                                       {"svhn", AutoAugmentPolicy::svhn}};
  std::map<std::string, std::size_t> seen;
  const Json file = golden_transforms("augment");
  for (const Json& golden : file["policies"]) {
    const std::string name = golden["policy"];
    const AutoPolicy& policy = auto_policies(names.at(name))[seen[name]++];
    for (std::size_t i = 0; i < 2; ++i) {
      const Json& step = golden["pair"][i];
      CHECK(policy[i].op == kOps.at(step[0]));
      CHECK(policy[i].probability == step[1]);
      if (!step[2].is_null()) CHECK(policy[i].bin == step[2]);
    }
  }
  for (const auto& [name, policy] : names) CHECK(seen[name] == auto_policies(policy).size());
}

TEST_CASE("perspective_of: three corners on one line have no perspective") {
  const ImageShape shape{5, 7, 3};
  CHECK(perspective_of(shape, {{{0, 0}, {6, 0}, {6, 4}, {0, 4}}}).has_value());
  CHECK_FALSE(perspective_of(shape, {}).has_value());
  CHECK_FALSE(perspective_of(shape, {{{3, 1}, {3, 1}, {6, 4}, {0, 4}}}).has_value());
  CHECK_FALSE(perspective_of(shape, {{{0, 0}, {2, 2}, {4, 4}, {0, 4}}}).has_value());
  CHECK_FALSE(perspective_of({1, 7, 3}, {{{0, 0}, {6, 0}, {6, 0}, {0, 0}}}).has_value());
  CHECK_FALSE(perspective_of({5, 1, 3}, {{{0, 0}, {1, 0}, {1, 4}, {0, 4}}}).has_value());
}

TEST_CASE("warp_affine: infinite coordinates give the fill") {
  const std::vector<std::uint8_t> pixels(4 * 4 * 3, 50);
  const ImageView image(pixels.data(), {4, 4, 3});
  std::vector<std::uint8_t> scratch;
  for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear}) {
    const Sampling sampling{interpolation, Fill({9})};
    ImageTarget output(scratch);
    const double infinity = std::numeric_limits<double>::infinity();
    warp_affine(image, {1e30, 0, 1e38, infinity, 0, 0}, image.shape, sampling, output);
    CHECK(std::vector(output.pixels(), output.pixels() + 48) == std::vector<std::uint8_t>(48, 9));
  }
}
