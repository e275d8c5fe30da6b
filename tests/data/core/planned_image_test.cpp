#include "data/cache/device_cache.hpp"
#include "data/core/transform.hpp"
#include "data/fakes.hpp"
#include "data/host_images.hpp"
#include "data/transform_of.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

using Steps = std::vector<std::shared_ptr<const Transform>>;

std::shared_ptr<const Transform> crop_of(int height, int width, std::vector<int> padding,
                                         std::vector<int> fill = {0}, bool if_needed = true) {
  spec::transform::RandomCrop crop;
  crop.size = {{height, width}};
  crop.padding = {std::move(padding)};
  crop.pad_if_needed = if_needed;
  crop.fill = {std::move(fill)};
  return transform_of("random_crop", crop);
}

std::shared_ptr<const Transform> padded_crop(spec::transform::PaddingMode mode, int size = 8,
                                             std::vector<int> padding = {2}) {
  spec::transform::RandomCrop crop;
  crop.size = {{size}};
  crop.padding = {std::move(padding)};
  crop.padding_mode = mode;
  return transform_of("random_crop", crop);
}

std::shared_ptr<const Transform> center_of(int height, int width) {
  spec::transform::CenterCrop center;
  center.size = {{height, width}};
  return transform_of("center_crop", center);
}

std::shared_ptr<const Transform> erasing_of(std::vector<int> value) {
  spec::transform::RandomErasing erasing;
  erasing.p = 0.8;
  erasing.value = {std::move(value)};
  return transform_of("random_erasing", erasing);
}

std::shared_ptr<const Transform> flip_of(bool vertical) {
  if (vertical) return transform_of("random_vertical_flip", spec::transform::RandomVerticalFlip{});
  return transform_of("random_horizontal_flip", spec::transform::RandomHorizontalFlip{});
}

int number(CounterRng& rng, int least, int most) {
  return least + static_cast<int>(rng.below(static_cast<std::uint64_t>(most - least + 1)));
}

/// Returns random cheap transforms in random order; erases at most once, and all fill with 0.
Steps random_steps(CounterRng& rng) {
  Steps steps;
  bool erases = false;
  for (int left = number(rng, 1, 5); left > 0; --left) {
    const int height = number(rng, 1, 12);
    const int width = number(rng, 1, 12);
    const int kind = number(rng, 0, 4);
    if (kind == 0) steps.push_back(crop_of(height, width, {number(rng, 0, 4), number(rng, 0, 4)}));
    if (kind == 1) steps.push_back(center_of(height, width));
    if (kind == 2 || kind == 3) steps.push_back(flip_of(kind == 3));
    if (kind == 4 && !std::exchange(erases, true)) steps.push_back(erasing_of({200, 90, 30}));
  }
  return steps;
}

Picture picture_of(const ImageShape& shape, CounterRng& rng) {
  Picture picture;
  picture.shape = shape;
  for (std::size_t i = 0; i < shape.bytes(); ++i)
    picture.pixels.push_back(static_cast<std::uint8_t>(rng.next_u32()));
  return picture;
}

CounterRng draws(std::uint64_t position, std::size_t operation) {
  return {11, 2, position, static_cast<std::uint16_t>(operation)};
}

/// Compares the transforms on pixels with the plan of the same transforms.
void compare(const Steps& steps, const Picture& source, std::uint64_t position) {
  const PlannedTail tail = planned_tail({nullptr, steps, 0, {}, {}, {}, {}}, source.shape);
  REQUIRE(tail.obstacle.empty());
  Picture expected = source;
  PlannedImage image(source.shape);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    expected = applied(*steps[i], {expected.pixels.data(), expected.shape}, draws(position, i));
    CounterRng rng = draws(position, i);
    steps[i]->apply_to_plan(image, rng);
    REQUIRE(image.shape() == expected.shape);
  }
  const std::vector<std::byte> made =
      made_of(image.plan(0), source.pixels.data(), source.shape, expected.shape, tail.colors);
  const auto bytes = std::as_bytes(std::span(expected.pixels));
  REQUIRE(made == std::vector<std::byte>(bytes.begin(), bytes.end()));
}

std::string obstacle_of(const Steps& steps, const ImageShape& shape = {8, 8, 3}) {
  return planned_tail({nullptr, steps, 0, {}, {}, {}, {}}, shape).obstacle;
}

}  // namespace

TEST_CASE("PlannedImage: a plan gives the same pixels as the transforms, for random lists") {
  int planned = 0;
  for (std::uint64_t round = 0; round < 1500; ++round) {
    CounterRng rng(7, 0, round, 0);
    // A plan does not contain the fixed prefix.
    Steps steps = random_steps(rng);
    while (!steps.empty() && !steps.front()->random()) steps.erase(steps.begin());
    if (steps.empty()) continue;
    const ImageShape shape{number(rng, 1, 11), number(rng, 1, 11), number(rng, 0, 1) == 1 ? 3 : 4};
    if (shape.channels == 4) {
      const auto colored = [](const auto& step) {
        return step->paints({8, 8, 3})->erased.has_value();
      };
      steps.erase(std::remove_if(steps.begin(), steps.end(), colored), steps.end());
      while (!steps.empty() && !steps.front()->random()) steps.erase(steps.begin());
    }
    if (steps.empty()) continue;
    const Picture source = picture_of(shape, rng);
    for (std::uint64_t position = 0; position < 6; ++position) compare(steps, source, position);
    ++planned;
  }
  CHECK(planned > 1000);
}

TEST_CASE("PlannedImage: a plan supports one color per channel and crops without padding") {
  CounterRng rng(3, 0, 0, 0);
  const Picture source = picture_of({9, 7, 3}, rng);
  for (std::uint64_t position = 0; position < 50; ++position) {
    compare({crop_of(9, 7, {3, 1, 2, 4}, {10, 20, 30}, false), erasing_of({40, 50, 60}),
             flip_of(false)},
            source, position);
    compare({crop_of(4, 5, {0}, {0}, false), flip_of(true), crop_of(8, 8, {2}, {9})}, source,
            position);
  }
}

TEST_CASE("planned_tail: the error names the transform without a plan and says what to do") {
  CHECK(obstacle_of({flip_of(false), crop_of(8, 8, {2})}).empty());
  const auto jitter =
      transform_of("color_jitter", spec::transform::ColorJitter{.brightness = {{0.5}}});
  CHECK_THAT(obstacle_of({flip_of(false), jitter}),
             Contains("transform 2 computes new pixels") && Contains("mode to decoded"));
  CHECK_THAT(obstacle_of({crop_of(8, 8, {2}), crop_of(8, 8, {2}, {7})}),
             Contains("transform 2 fills with a different color"));
  CHECK_THAT(obstacle_of({erasing_of({0}), flip_of(true), erasing_of({0})}),
             Contains("transform 3 erases, but an earlier"));
  CHECK_THAT(obstacle_of({flip_of(false)}, {0, 0, 3}), Contains("images must have equal sizes"));
  const auto reflected = padded_crop(spec::transform::PaddingMode::reflect);
  CHECK(obstacle_of({reflected, flip_of(false)}).empty());
  CHECK_THAT(obstacle_of({flip_of(false), reflected}),
             Contains("transform 2 reflects an image") && Contains("before all other random"));
  CHECK_THAT(obstacle_of({padded_crop(spec::transform::PaddingMode::symmetric)}),
             Contains("transform 1 computes new pixels"));
}

TEST_CASE("PlannedImage: a crop reflects the border, also if flips and crops follow") {
  CounterRng rng(5, 0, 0, 0);
  const Picture source = picture_of({9, 7, 3}, rng);
  for (std::uint64_t position = 0; position < 300; ++position) {
    compare({padded_crop(spec::transform::PaddingMode::reflect, 9, {6, 8, 5, 3}), flip_of(false),
             flip_of(true), erasing_of({40}), center_of(6, 12)},
            source, position);
    compare({padded_crop(spec::transform::PaddingMode::reflect, 4, {2}), crop_of(5, 5, {3}),
             flip_of(false)},
            source, position);
  }
}

TEST_CASE("planned_tail: a crop that fills nothing does not conflict with another fill color") {
  // A center crop without padding paints nothing, so the colors do not conflict.
  CHECK(obstacle_of({crop_of(12, 12, {2}, {7}), center_of(8, 8)}).empty());
  CHECK_THAT(obstacle_of({crop_of(6, 6, {2}, {7}), center_of(8, 8)}),
             Contains("transform 2 fills with a different color"));
}
