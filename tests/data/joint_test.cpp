#include "data/transform/joint.hpp"

#include "data/core/pipeline.hpp"
#include "data/image/codec/png.hpp"
#include "data/inspect/split_stats.hpp"
#include "data/sources.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"
#include "support/stage.hpp"
#include "support/temp_folder.hpp"

#include <filesystem>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;

namespace {

constexpr std::int64_t kTracedHeight = 9;
constexpr std::int64_t kTracedWidth = 12;

/// A picture whose red channel is the row and green channel the column, and a mask in which each
/// pixel has its own value, 12 * row + column, so that moved pixels can be traced.
std::vector<std::uint8_t> traced() {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < kTracedHeight; ++y) {
    for (int x = 0; x < kTracedWidth; ++x)
      pixels.insert(pixels.end(), {static_cast<std::uint8_t>(y), static_cast<std::uint8_t>(x), 9,
                                   static_cast<std::uint8_t>(12 * y + x)});
  }
  return pixels;
}

struct Moved {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;
};

Moved apply_joint(const std::string& type, const std::string& options, std::uint64_t position) {
  const config::Stage stage = stage_from("transform", type, options);
  const auto transform = joint_transform(stage, builtin_catalog().transforms.at(type));
  const std::vector<std::uint8_t> pixels = traced();
  const ImageShape shape{kTracedHeight, kTracedWidth, 4};
  std::vector<std::uint8_t> out;
  ImageTarget target(out);
  CounterRng rng(1, 0, position, 0);
  transform->apply({pixels.data(), shape}, target, rng);
  return {target.shape(), out};
}

void write_pictures(const TempFolder& folder, const std::vector<std::uint8_t>& labels) {
  const std::vector<std::uint8_t> colors(6 * 3, 50);
  for (const char* kind : {"images", "masks"}) std::filesystem::create_directories(folder / kind);
  write_png(folder / "images/a.png", {colors.data(), {2, 3, 3}});
  write_png(folder / "masks/a.png", {labels.data(), {2, 3, 1}});
}

spec::dataset::ImageMasks options_in(const TempFolder& folder) {
  spec::dataset::ImageMasks options;
  options.images = folder / "images";
  options.masks = folder / "masks";
  options.classes = {"ground", "thing"};
  return options;
}

std::shared_ptr<const Dataset> open_masks(const spec::dataset::ImageMasks& options) {
  return builtin_catalog().datasets.at("image_masks")(
      config::make_stage("dataset", "image_masks", options));
}

}  // namespace

TEST_CASE("joint_transform: image and mask move together, for any draw") {
  for (const auto& [type, options] : std::vector<std::pair<std::string, std::string>>{
           {"random_crop", "{size: 6}"},
           {"random_horizontal_flip", "{}"},
           {"random_vertical_flip", "{}"},
           {"center_crop", "{size: [5, 7]}"},
           {"random_resized_crop", "{size: 7, interpolation: nearest}"},
           {"resize", "{size: [18, 24], interpolation: nearest}"},
           {"random_affine", "{degrees: 40, translate: [0.2, 0.2], fill: 200}"},
           {"random_rotation", "{degrees: 90, fill: 200}"},
           {"random_perspective", "{p: 1, interpolation: nearest, fill: 200}"},
           {"random_erasing", "{p: 0}"}}) {
    for (std::uint64_t position = 0; position < 8; ++position) {
      INFO(type << options << " at " << position);
      const Moved moved = apply_joint(type, options, position);
      REQUIRE(moved.shape.channels == 4);
      for (std::size_t i = 0; i + 3 < moved.shape.bytes(); i += 4) {
        const int outside = moved.pixels[i] == 200 ? 1 : 0;
        const int expected = outside == 1 ? 255 : 12 * moved.pixels[i] + moved.pixels[i + 1];
        REQUIRE(int{moved.pixels[i + 3]} == expected);
      }
    }
  }
}

TEST_CASE("joint_transform: masks are never interpolated, and colors leave them as they are") {
  const Moved larger = apply_joint("resize", "{size: [18, 24]}", 0);
  CHECK(larger.shape == ImageShape{18, 24, 4});
  for (std::int64_t y = 0; y < 18; ++y) {
    for (std::int64_t x = 0; x < 24; ++x) {
      const auto at = static_cast<std::size_t>(4 * (24 * y + x) + 3);
      REQUIRE(std::int64_t{larger.pixels[at]} == 12 * (y / 2) + x / 2);
    }
  }
  const Moved padded = apply_joint("center_crop", "{size: [9, 14]}", 0);
  CHECK(int{padded.pixels[2]} == 0);
  CHECK(int{padded.pixels[3]} == 255);
  for (const auto& [type, options] : std::vector<std::pair<std::string, std::string>>{
           {"color_jitter", "{brightness: 0.9}"}, {"random_invert", "{p: 1}"}}) {
    INFO(type);
    const Moved colored = apply_joint(type, options, 3);
    const std::vector<std::uint8_t> before = traced();
    CHECK(colored.pixels != before);
    for (std::size_t i = 3; i < before.size(); i += 4) REQUIRE(colored.pixels[i] == before[i]);
  }
  CHECK_THROWS_WITH(apply_joint("auto_augment", "{}", 0),
                    Contains("'auto_augment' cannot transform masks together with their images"));
}

TEST_CASE("image_masks: the mask is the last channel, and its values are checked") {
  const TempFolder folder;
  write_pictures(folder, {0, 1, 255, 1, 0, 0});
  const auto dataset = open_masks(options_in(folder));
  CHECK(dataset->size() == 1);
  CHECK(dataset->classes() == 2);
  const Roles roles = roles_of(dataset->layout());
  CHECK(roles.kind.targets == spec::Targets::pixels);
  CHECK(roles.outputs(2) == 2);
  std::vector<std::byte> scratch;
  const StoredImage stored = dataset->images()->read(0, scratch);
  CHECK(stored.raw == ImageShape{2, 3, 4});
  std::vector<int> labels;
  for (std::size_t i = 3; i < stored.bytes.size(); i += 4)
    labels.push_back(std::to_integer<int>(stored.bytes[i]));
  CHECK(labels == std::vector<int>{0, 1, 255, 1, 0, 0});
  const std::string before = dataset->fingerprint();
  write_pictures(folder, {0, 1, 2, 1, 0, 0});
  const auto changed = open_masks(options_in(folder));
  CHECK(changed->fingerprint() != before);
  CHECK_THROWS_WITH(changed->images()->read(0, scratch),
                    Contains("a.png has the value 2 at x 2, y 0, but there are 2 classes"));
}

TEST_CASE("image_masks: images without a mask and masks of another size are an error") {
  const TempFolder folder;
  write_pictures(folder, {0, 1, 1, 1, 0, 0});
  const std::vector<std::uint8_t> small(4, 0);
  write_png(folder / "masks/a.png", {small.data(), {2, 2, 1}});
  std::vector<std::byte> scratch;
  CHECK_THROWS_WITH(open_masks(options_in(folder))->images()->read(0, scratch),
                    Contains("a.png has 2x2 pixels, but the image has 2x3"));
  std::string deep = testing::get_text(folder / "masks/a.png");
  deep[24] = 16;  // bits of a channel
  put_text(folder / "masks/a.png", deep);
  CHECK_THROWS_WITH(open_masks(options_in(folder))->images()->read(0, scratch),
                    Contains("a.png: ") && Contains("must have 8 bits, got 16"));
  std::filesystem::rename(folder / "masks/a.png", folder / "masks/b.png");
  CHECK_THROWS_WITH(open_masks(options_in(folder)), Contains("images/a.png has no mask in"));
}

TEST_CASE("image_masks: files that differ only in their suffix are an error that names both") {
  const TempFolder folder;
  write_pictures(folder, {0, 1, 1, 1, 0, 0});
  for (const std::string kind : {"masks", "images"}) {
    const std::filesystem::path copy = folder / kind / "a.bmp";
    std::filesystem::copy_file(folder / kind / "a.png", copy);
    CHECK_THAT(testing::failure_of([&] { open_masks(options_in(folder)); }),
               StartsWith("2: ") && Contains(kind + "/a.bmp and ") &&
                   Contains(kind + "/a.png differ only in their suffix") &&
                   Contains("hint: remove or rename one of them"));
    std::filesystem::remove(copy);
  }
  CHECK(open_masks(options_in(folder))->size() == 1);
}

TEST_CASE("image_masks: masks without a class above 0 but with 255 are a warning") {
  const TempFolder folder;
  const auto warning_for = [&](const std::vector<std::uint8_t>& labels) {
    write_pictures(folder, labels);
    const SplitCheck check =
        check_dataset({config::make_stage("dataset", "image_masks", options_in(folder)), {}});
    CHECK(check.problems.empty());
    CHECK(check.facts->samples == 1);
    return check.warning;
  };
  CHECK_THAT(warning_for({0, 255, 255, 0, 0, 255}),
             Contains("no pixel has a class above 0, but some have the value 255") &&
                 Contains("images/a.png\nhint: "));
  CHECK(warning_for({0, 255, 1, 0, 0, 255}).empty());
  CHECK(warning_for({0, 0, 0, 0, 0, 0}).empty());
  CHECK(warning_for({0, 255, 7, 0, 0, 255}).empty());  // an error when the sample is read
}

TEST_CASE("image_masks: more classes than values of a pixel are an error") {
  const TempFolder folder;
  write_pictures(folder, {0, 1, 1, 1, 0, 0});
  auto options = options_in(folder);
  options.classes.assign(255, "thing");
  CHECK(open_masks(options)->classes() == 255);
  options.classes.emplace_back("more");
  CHECK_THROWS_WITH(open_masks(options), Contains("at most 255 names, got 256"));
}

TEST_CASE("image_masks: what needs one class for each sample is an error") {
  const TempFolder folder;
  write_pictures(folder, {0, 1, 1, 1, 0, 0});
  auto options = options_in(folder);
  const auto open = [](const std::string& type, const auto& of_masks) {
    return builtin_catalog().datasets.at(type)(config::make_stage("dataset", type, of_masks));
  };
  spec::dataset::Subset part;
  part.source = config::make_stage("dataset", "image_masks", options);
  part.fraction = 0.5;
  part.stratify = true;
  CHECK_THROWS_WITH(open("subset", part), Contains("'stratify' needs labels that are classes"));
  spec::dataset::Concat both;
  both.sources = {part.source, part.source};
  CHECK(open("concat", both)->size() == 2);
  std::swap(options.classes[0], options.classes[1]);
  both.sources[1] = config::make_stage("dataset", "image_masks", options);
  CHECK_THROWS_WITH(open("concat", both), Contains("must have the same order in all sources"));
}

TEST_CASE("split_stats: masks are not a channel of the images") {
  const TempFolder folder;
  write_pictures(folder, {0, 1, 255, 1, 0, 0});
  const SplitStats stats = split_stats(*open_masks(options_in(folder)), {}, [](std::int64_t) {});
  CHECK(stats.mean == std::vector<double>(3, 50.0 / 255));
  CHECK(stats.std.size() == 3);
}
