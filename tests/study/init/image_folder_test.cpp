#include "data/image/codec/png.hpp"
#include "data/image/golden_pixels.hpp"
#include "study/init/starters.hpp"

using namespace trainctl;
using namespace trainctl::study;
using namespace trainctl::study::testing;

namespace {

/// Writes images NAME/0.png, NAME/1.png, ...
void write_images(const StarterFolder& folder, const std::string& name, int count,
                  const data::ImageShape& shape) {
  const std::string png = data::png_of(data::testing::noise(shape).view());
  for (int i = 0; i < count; ++i) folder.write(fmt::format("{}/{}.png", name, i), png);
}

}  // namespace

TEST_CASE("init: class folders are counted and divided, and their sizes choose the crop") {
  const StarterFolder folder;
  write_images(folder, "photos/cat", 12, {40, 32, 3});
  write_images(folder, "photos/dog", 4, {100, 50, 3});
  const Starter starter = folder.make("image-folder", "photos/");
  CHECK(fact(starter, "classes") == "2: cat, dog");
  CHECK(fact(starter, "images") == "16, 4 to 12 per class");
  CHECK(fact(starter, "validation") == "a fifth of the images");
  CHECK(fact(starter, "sizes") == "shorter side 32 to 50 pixels, median 32");
  CHECK_THAT(fact(starter, "broken"), StartsWith("0 of 16 headers"));
  CHECK_THAT(starter.yaml, Contains("\nname: photos\n") &&
                               Contains("# 16 images of 2 classes; the smallest class has 4.") &&
                               Contains("{ type: center_crop, size: 32 }") &&
                               Contains("split: { val: 0.2, stratify: true }") &&
                               Contains("3.0 times as large") && !Contains("on_error"));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: large images get ResNet-18 and crops of 224 pixels") {
  const StarterFolder folder;
  write_images(folder, "photos/a", 6, {300, 220, 3});
  write_images(folder, "photos/b", 6, {220, 200, 3});
  const Starter starter = folder.make("image-folder", "photos");
  CHECK_THAT(starter.yaml,
             Contains("model: resnet18\n") && Contains("{ type: resize, size: 256 }"));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: folders train and val are used as they are, if they have the same classes") {
  const StarterFolder folder;
  for (const char* name : {"set/train/a", "set/train/b", "set/val/a"})
    write_images(folder, name, 6, {64, 64, 3});
  CHECK_THAT(folder.failure("image-folder", "set"),
             StartsWith("9: ") && EndsWith("must have the same class folders, got a, b and a"));
  write_images(folder, "set/val/b", 2, {64, 64, 3});
  const Starter starter = folder.make("image-folder", "set");
  CHECK_THAT(fact(starter, "validation"), EndsWith("set/val"));
  CHECK_THAT(starter.yaml, Contains("set/val\n") && !Contains("split:"));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: a class folder called train is a class") {
  const StarterFolder folder;
  write_images(folder, "vehicles/car", 6, {32, 32, 3});
  write_images(folder, "vehicles/train", 6, {32, 32, 3});
  CHECK(fact(folder.make("image-folder", "vehicles"), "classes") == "2: car, train");
  write_images(folder, "vehicles/train/steam", 2, {32, 32, 3});
  write_images(folder, "vehicles/train/electric", 2, {32, 32, 3});
  CHECK(fact(folder.make("image-folder", "vehicles"), "classes") == "2: car, train");
}

TEST_CASE("init: two folders for validation are refused") {
  const StarterFolder folder;
  for (const char* name : {"set/train/a", "set/train/b", "set/val/a", "set/validation/a"})
    write_images(folder, name, 6, {32, 32, 3});
  CHECK_THAT(folder.failure("image-folder", "set"),
             StartsWith("9: ") && Contains("set/val and ") &&
                 EndsWith("set/validation are both for validation\nhint: remove one"));
}

TEST_CASE("init: broken images in the validation folder are counted, too") {
  const StarterFolder folder;
  for (const char* name : {"set/train/a", "set/train/b", "set/val/a", "set/val/b", "set/test/a"})
    write_images(folder, name, 6, {32, 32, 3});
  folder.write("set/train/a/x.png", "no image");
  folder.write("set/val/b/y.png", "no image");
  const Starter starter = folder.make("image-folder", "set");
  CHECK_THAT(fact(starter, "broken"),
             StartsWith("2 of 26 headers: ") && Contains("a/x.png") && EndsWith("b/y.png"));
  CHECK_THAT(starter.yaml, Contains("on_error: skip\n  max_skipped: 4\n"));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: broken images are counted and skipped, and the first three are named") {
  const StarterFolder folder;
  write_images(folder, "photos/a", 12, {32, 32, 3});
  write_images(folder, "photos/b", 12, {32, 32, 3});
  for (const char* name : {"photos/a/w.png", "photos/a/x.jpg", "photos/b/y.png", "photos/b/z.png"})
    folder.write(name, "no image");
  const Starter starter = folder.make("image-folder", "photos");
  CHECK_THAT(fact(starter, "broken"), StartsWith("4 of 28 headers: ") && Contains("a/w.png") &&
                                          Contains("a/x.jpg") && EndsWith("b/y.png and 1 more"));
  CHECK_THAT(starter.yaml, Contains("on_error: skip\n  max_skipped: 8\n"));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: links to images are followed") {
  const StarterFolder folder;
  write_images(folder, "all/a", 6, {32, 32, 3});
  write_images(folder, "all/b", 6, {32, 32, 3});
  fs::create_directories(folder / "photos");
  for (const char* name : {"a", "b"})
    fs::create_directory_symlink(folder / ("all/" + std::string(name)),
                                 folder / ("photos/" + std::string(name)));
  CHECK(folder.problems(folder.make("image-folder", "photos")).empty());
}

TEST_CASE("init: a class with one image prevents stratification") {
  const StarterFolder folder;
  write_images(folder, "photos/a", 12, {32, 32, 3});
  write_images(folder, "photos/b", 1, {32, 32, 3});
  const Starter starter = folder.make("image-folder", "photos");
  CHECK_THAT(starter.yaml, Contains("split: { val: 0.2 }"));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: hundreds of class folders are read") {
  const StarterFolder folder;
  for (int i = 0; i < 300; ++i)
    write_images(folder, fmt::format("many/class {:03}", i), 2, {8, 8, 3});
  const Starter starter = folder.make("image-folder", "many");
  CHECK_THAT(fact(starter, "classes"), StartsWith("300: class 000") && EndsWith("and 294 more"));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: folders without enough images or classes are refused") {
  const StarterFolder folder;
  fs::create_directories(folder / "empty");
  CHECK_THAT(folder.failure("image-folder", "empty"), Contains("must contain class folders"));
  write_images(folder, "one/cat", 12, {32, 32, 3});
  CHECK_THAT(folder.failure("image-folder", "one"), Contains("has only the class folder 'cat'"));
  write_images(folder, "few/cat", 3, {32, 32, 3});
  write_images(folder, "few/dog", 3, {32, 32, 3});
  CHECK_THAT(folder.failure("image-folder", "few"),
             EndsWith("has 6 images, but at least 10 are needed"));
  for (int i = 0; i < 12; ++i) folder.write(fmt::format("broken/{}/{}.png", i % 2, i), "");
  CHECK_THAT(folder.failure("image-folder", "broken"),
             StartsWith("9: cannot read any of the images in"));
}
