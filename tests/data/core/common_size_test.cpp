#include "data/core/image_probe.hpp"
#include "data/core/pipeline.hpp"
#include "data/image/jpeg_files.hpp"
#include "data/sources.hpp"
#include "data/tar_files.hpp"
#include "spec/options/dataset.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

std::string sized_jpeg(const ImageShape& shape) {
  const File file = jpeg_file(shades(shape));
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

/// Writes 300 images of 12x10 pixels, which an image folder and an image list can read.
class SizedPictures {
 public:
  SizedPictures() {
    for (int i = 0; i < 300; ++i) put(i, {12, 10, 3});
    settle();
  }
  void put(int i, const ImageShape& shape) {
    put_text(folder_ / "images" / (i % 2 == 0 ? "crow" : "owl") / name(i), sized_jpeg(shape));
  }
  void settle() {
    std::string list;
    for (int i = 0; i < 300; ++i)
      list += (i % 2 == 0 ? "crow/" : "owl/") + name(i) + (i % 2 == 0 ? ",crow\n" : ",owl\n");
    put_text(folder_ / "images/list.csv", list);
    testing::settle(folder_.path());
  }
  static std::string name(int i) { return std::to_string(1000 + i) + ".jpg"; }

  [[nodiscard]] spec::DataSplit folder() const {
    spec::dataset::ImageFolder options;
    options.root = folder_ / "images";
    return {config::make_stage("dataset", "image_folder", options), {}};
  }
  [[nodiscard]] spec::DataSplit list() const {
    spec::dataset::ImageList options;
    options.path = folder_ / "images/list.csv";
    return {config::make_stage("dataset", "image_list", options), {}};
  }

 private:
  CacheHome cache_;
  TempFolder folder_;
};

std::string size_problems(const spec::DataSplit& split) {
  std::string text;
  for (const Problem& problem : check_split(split).problems) text += problem.message;
  return text;
}

std::vector<Copy> sized_batches(const spec::DataSplit& split) {
  LoaderOptions options;
  options.batch_size = 300;
  options.order = Order::sequential;
  Loader loader(build_pipeline(split), options);
  return read_epoch(loader, 0);
}

}  // namespace

TEST_CASE("same size: a folder and a list of images of one size need no transform") {
  const SizedPictures pictures;
  for (const spec::DataSplit& split : {pictures.folder(), pictures.list()}) {
    const SplitCheck check = check_split(split);
    CHECK(check.problems.empty());
    REQUIRE(check.facts);
    CHECK(check.facts->image()->shape == std::vector<std::int64_t>{12, 10, 3});
    const auto batches = sized_batches(split);
    REQUIRE(batches.size() == 1);
    CHECK(batches[0].fields[0].size() == 300 * 12 * 10 * 3);
  }
}

TEST_CASE("same size: a tar set of images of one size needs no transform") {
  const CacheHome cache;
  const TempFolder folder;
  std::string members;
  for (int i = 0; i < 5; ++i) {
    members += tar_member(std::to_string(i) + ".jpg", sized_jpeg({12, 10, 3}));
    members += tar_member(std::to_string(i) + ".cls", std::to_string(i % 2));
  }
  put_text(folder / "a.tar", members + tar_end());
  spec::dataset::Webdataset options;
  options.shards = {folder / "a.tar"};
  const spec::DataSplit split{config::make_stage("dataset", "webdataset", options), {}};
  CHECK(size_problems(split).empty());
  CHECK(build_pipeline(split).names == std::vector<std::string>{"same_size"});
}

TEST_CASE("same size: the pixels are those of a crop to the whole image") {
  const SizedPictures pictures;
  spec::DataSplit cropped = pictures.folder();
  spec::transform::RandomCrop options;
  options.size = {{12, 10}};
  cropped.transforms = {config::make_stage("transform", "random_crop", options)};
  CHECK(sized_batches(pictures.folder()) == sized_batches(cropped));
}

TEST_CASE("same size: check_split names images that differ in size") {
  SizedPictures pictures;
  for (int i = 0; i < 300; i += 3) pictures.put(i, {12, 11, 3});
  pictures.settle();
  CHECK_THAT(size_problems(pictures.folder()),
             StartsWith("the images differ in size: ") && Contains("12x11") && Contains("12x10") &&
                 Contains(".jpg has") && Contains("{type: random_resized_crop, size: 224}"));
}

TEST_CASE("same size: the loader names an image of another size that the probe missed") {
  SizedPictures pictures;
  // The probe reads 64 of the 300 images, so the loop looks for an image that it misses.
  for (int odd = 0; odd < 300; ++odd) {
    pictures.put(odd, {13, 10, 3});
    pictures.settle();
    const bool missed = size_problems(pictures.folder()).empty();
    if (missed) {
      CHECK_THAT(
          failure_of([&] { (void)sized_batches(pictures.folder()); }),
          StartsWith("9: ") && Contains(SizedPictures::name(odd)) &&
              Contains(
                  "the image has 13x10 pixels, but the images checked at the start have 12x10"));
      return;
    }
    pictures.put(odd, {12, 10, 3});
  }
  FAIL("the probe read every image");
}
