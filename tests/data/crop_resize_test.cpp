#include "data/fakes.hpp"
#include "data/transform/crop.hpp"
#include "data/transform_of.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

using Transforms = std::shared_ptr<const Transform>;

Transforms resize_to(std::vector<int> size, std::optional<int> max_size = {}) {
  return transform_of("resize", spec::transform::Resize{{std::move(size)}, max_size});
}

Transforms center_crop(std::vector<int> size) {
  return transform_of("center_crop", spec::transform::CenterCrop{{std::move(size)}});
}

Transforms random_resized_crop(const spec::transform::RandomResizedCrop& options) {
  return transform_of("random_resized_crop", options);
}

std::vector<int> size_of(const Json& golden) {
  return golden.is_number() ? std::vector<int>{golden.get<int>()} : golden.get<std::vector<int>>();
}

}  // namespace

TEST_CASE(
    "resize: shapes equal torchvision's for all forms of 'size', and pixels differ by one level") {
  for (const Json& golden : golden_cases("images", "resize")) {
    const ImageShape input = shape_of(golden["input"]);
    const auto max_size =
        golden["max_size"].is_null() ? std::nullopt : std::optional(golden["max_size"].get<int>());
    const Transforms resize = resize_to(size_of(golden["size"]), max_size);
    INFO(golden["input"] << " to " << golden["size"]);
    const Picture expected = golden_picture(golden);
    CHECK(resize->output(input) == expected.shape);
    CHECK(distance(applied(*resize, noise(input).view()), expected) <= 1);
  }
}

TEST_CASE("resize: nearest is bitwise equal to torchvision's, also joined with a crop") {
  for (const Json& golden : golden_cases("images", "resize_nearest")) {
    INFO(golden["input"] << " to " << golden["size"]);
    const auto max_size =
        golden["max_size"].is_null() ? std::nullopt : std::optional(golden["max_size"].get<int>());
    const spec::transform::Resize options{
        {size_of(golden["size"])}, max_size, spec::transform::Interpolation::nearest};
    const Transforms resize = transform_of("resize", options);
    const Picture input = noise(shape_of(golden["input"]));
    const Picture found = applied(*resize, input.view());
    CHECK(distance(found, golden_picture(golden)) == 0);
    const Transforms crop = center_crop({3, 2});
    const auto joined = resize->then(*crop);
    REQUIRE(joined != nullptr);
    CHECK(distance(applied(*joined, input.view()), applied(*crop, found.view())) == 0);
  }
}

TEST_CASE("center_crop: pixels equal torchvision's, also where a smaller image is padded") {
  for (const Json& golden : golden_cases("images", "center_crop")) {
    INFO(golden["input"] << " to " << golden["size"]);
    const Transforms crop = center_crop(size_of(golden["size"]));
    CHECK(distance(applied(*crop, noise(shape_of(golden["input"])).view()),
                   golden_picture(golden)) == 0);
  }
}

TEST_CASE("random_resized_crop: a given box is resized as by torchvision, to one level") {
  for (const Json& golden : golden_cases("images", "resized_crop")) {
    spec::transform::RandomResizedCrop options;
    options.size.values = size_of(golden["size"]);
    const auto crop = std::dynamic_pointer_cast<const CropTransform>(random_resized_crop(options));
    const Picture input = noise(shape_of(golden["input"]));
    const Json& b = golden["box"];
    Picture out;
    ImageTarget target(out.pixels);
    CounterRng rng(0, 0, 0, 0);
    crop->apply_to_box(input.view().window({b[0], b[1], b[2], b[3]}), input.shape, target, rng);
    out.shape = target.shape();
    CHECK(distance(out, golden_picture(golden)) <= 1);
  }
}

TEST_CASE(
    "random_resized_crop: boxes are those that torchvision computes from the same random numbers") {
  for (const Json& golden : golden_cases("images", "random_resized_crop")) {
    const auto options =
        spec::transform::RandomResizedCrop{{{10}}, golden["scale"], golden["ratio"]};
    const auto crop = std::dynamic_pointer_cast<const CropTransform>(random_resized_crop(options));
    std::uint64_t position = 0;
    for (const Json& b : golden["boxes"]) {
      INFO(golden["input"] << " at position " << position);
      CounterRng rng(3, 1, position++, 0);
      CHECK(crop->box(shape_of(golden["input"]), rng) == Box{b[0], b[1], b[2], b[3]});
    }
  }
}

TEST_CASE("resize: joined with center_crop it reads fewer pixels and gives the same bytes") {
  const std::vector<std::pair<Transforms, Transforms>> pairs{
      {resize_to({32}), center_crop({28})},     {resize_to({20, 50}), center_crop({20, 30})},
      {resize_to({16}), center_crop({28, 12})},  // with padding above and below
      {resize_to({8}), center_crop({64})},      {resize_to({200}, 210), center_crop({100, 101})},
  };
  for (const auto& [resize, crop] : pairs) {
    const auto joined = std::dynamic_pointer_cast<const CropTransform>(resize->then(*crop));
    REQUIRE(joined != nullptr);
    for (const ImageShape& shape :
         {ImageShape{75, 100, 3}, {100, 75, 3}, {9, 9, 1}, {37, 300, 3}}) {
      const Picture input = noise(shape);
      const Picture expected = applied(*crop, applied(*resize, input.view()).view());
      CHECK(distance(applied(*joined, input.view()), expected) == 0);
      CHECK(joined->output(shape) == expected.shape);
    }
  }
  CounterRng rng(0, 0, 0, 0);
  const auto joined =
      std::dynamic_pointer_cast<const CropTransform>(resize_to({256})->then(*center_crop({224})));
  const Box box = joined->box({375, 500, 3}, rng);
  CHECK(box.height < 335);
  CHECK(box.width < 335);
  CHECK(resize_to({8})->then(*resize_to({8})) == nullptr);
}

TEST_CASE("resize and crops: an invalid size, scale or ratio is a config error that names it") {
  CHECK_THAT(failure_of([] {
               resize_to({1, 2, 3});
             }),
             Contains("2: size must have 1 or 2 values, got 3\nhint: set size: 224"));
  CHECK_THAT(failure_of([] { center_crop({}); }),
             Contains("2: size must have 1 or 2 values, got 0"));
  CHECK_THAT(failure_of([] {
               resize_to({10, 20}, 30);
             }),
             Contains("2: max_size requires that size is one"));
  CHECK_THAT(failure_of([] { resize_to({10}, 10); }),
             Contains("2: max_size must be larger than size, got 10 and 10"));
  const auto crop_of = [](std::array<double, 2> scale, std::array<double, 2> ratio) {
    return failure_of([&] { random_resized_crop({{{10}}, scale, ratio}); });
  };
  CHECK_THAT(crop_of({0.9, 0.1}, {1, 1}),
             Contains("2: scale must be [smallest, largest], got [0.9, 0.1]"));
  CHECK_THAT(crop_of({0.1, 0.9}, {2, 1}),
             Contains("2: ratio must be [smallest, largest], got [2, 1]"));
}

TEST_CASE("resize: an output that is too large for the memory is a data error") {
  const Picture line = noise({1, 60'000, 1});
  CHECK_THAT(failure_of([&] { applied(*resize_to({4096}), line.view()); }),
             Contains("9: an image of 60000x1 pixels would become 245760000x4096"));
}

TEST_CASE("resize: a single size leaves the size of the output open, and center_crop fixes it") {
  CHECK(resize_to({32})->output({0, 0, 3}) == ImageShape{0, 0, 3});
  CHECK(resize_to({32, 20})->output({0, 0, 3}) == ImageShape{32, 20, 3});
  CHECK(center_crop({28})->output({0, 0, 3}) == ImageShape{28, 28, 3});
  CHECK(center_crop({28})->output({0, 0, 3}) == ImageShape{28, 28, 3});
  CHECK_FALSE(resize_to({32})->random());
  CHECK(random_resized_crop({{{10}}})->random());
}
