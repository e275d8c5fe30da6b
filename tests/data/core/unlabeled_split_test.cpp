#include "data/core/batch.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/pipeline.hpp"
#include "data/sources.hpp"
#include "spec/options/dataset.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
namespace fs = std::filesystem;

namespace {

void write_mixed_folder(const fs::path& root) {
  for (const char* name : {"dog/b.JPG", "dog/a.png", "cat/x/y/2.jpeg", "cat/x-1/3.webp",
                           "cat/1.bmp", "cat/notes.txt", "Zebra/z.tiff", "empty/readme.md"}) {
    put_text(root / name, std::string("bytes of ") + name);
  }
}

std::shared_ptr<const Dataset> opened(const fs::path& input) {
  const Unlabeled found = unlabeled_split(input, {});
  return build_pipeline(found.split, found.catalog).dataset;
}

std::vector<std::string> names_in(const Dataset& dataset) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < dataset.size(); ++i) names.push_back(dataset.images()->name(i));
  return names;
}

/// Returns the error, which check_split() and opening the split must both report with the kind
/// `kind`.
std::string input_error(const fs::path& input, ErrorKind kind) {
  const Unlabeled found = unlabeled_split(input, {});
  const SplitCheck check = check_split(found.split, spec::CacheMode::automatic, found.catalog);
  CHECK_FALSE(check.facts.has_value());
  REQUIRE(check.problems.size() == 1);
  CHECK(check.problems[0].kind == kind);
  try {
    (void)opened(input);
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    CHECK(error.what() == check.problems[0].message);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("unlabeled_split: names and order of the images are those of image_folder") {
  const CacheHome cache;
  const TempFolder folder;
  write_mixed_folder(folder.path());
  spec::dataset::ImageFolder labeled;
  labeled.root = folder.path();
  labeled.allow_empty = true;
  const auto dataset = opened(folder.path());
  CHECK(names_in(*dataset) == names_in(*build("image_folder", labeled)));
  CHECK(dataset->size() == 6);
  CHECK(stored(*dataset, 1) == "bytes of cat/1.bmp");
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>(6, 0));
}

TEST_CASE("unlabeled_split: images at the top of the folder come first, sorted by name") {
  const TempFolder folder;
  for (const char* name : {"b.png", "a/c.png", "a.png", "notes.txt"})
    put_text(folder / name, "bytes");
  CHECK(names_in(*opened(folder.path())) ==
        std::vector<std::string>{(folder / "a.png").string(), (folder / "b.png").string(),
                                 (folder / "a/c.png").string()});
}

TEST_CASE("unlabeled_split: symbolic links are followed, but a cycle is an error") {
  const TempFolder folder;
  const TempFolder outside;
  put_text(outside / "x.png", "far");
  put_text(folder / "a.png", "near");
  fs::create_directory_symlink(outside.path(), folder / "far");
  CHECK(stored(*opened(folder.path()), 1) == "far");
  fs::create_directory_symlink(folder.path(), folder / "up");
  CHECK_THAT(input_error(folder.path(), ErrorKind::data),
             Contains("is a link to a folder that contains it"));
}

TEST_CASE("unlabeled_split: a list keeps its order and has relative or absolute paths") {
  const TempFolder folder;
  const TempFolder outside;
  put_text(folder / "in/b.png", "b");
  put_text(folder / "a.JPG", "a");
  put_text(outside / "c.png", "c");
  put_text(folder / "list.txt",
           "in/b.png\r\n\na.JPG\nin/../a.JPG\n" + (outside / "c.png").string());
  const auto dataset = opened(folder / "list.txt");
  REQUIRE(dataset->size() == 4);
  CHECK(stored(*dataset, 0) + stored(*dataset, 1) + stored(*dataset, 2) + stored(*dataset, 3) ==
        "baac");
  CHECK(dataset->images()->name(0) == (folder / "in/b.png").string());
  CHECK(dataset->images()->name(3) == (outside / "c.png").string());
}

TEST_CASE("unlabeled_split: a single image is one sample") {
  const TempFolder folder;
  put_text(folder / "one.png", "1");
  put_text(folder / "two.png", "2");
  CHECK(names_in(*opened(folder / "one.png")) ==
        std::vector<std::string>{(folder / "one.png").string()});
}

TEST_CASE("unlabeled_split: the error for an input without images says what is missing and where") {
  const TempFolder folder;
  CHECK_THAT(input_error(folder / "none", ErrorKind::config),
             StartsWith("--input '") && Contains("no such file or folder"));
  put_text(folder / "empty/notes.txt", "no picture");
  CHECK_THAT(input_error(folder / "empty", ErrorKind::data), Contains("no images found"));
  put_text(folder / "empty.txt", "\n\n");
  CHECK_THAT(input_error(folder / "empty.txt", ErrorKind::data), Contains("no images found"));
  put_text(folder / "list.txt", "\nnotes.md\n");
  CHECK_THAT(input_error(folder / "list.txt", ErrorKind::data),
             Contains("list.txt:2: 'notes.md' must end in .jpg"));
  put_text(folder / "gone.txt", "gone.png\n");
  CHECK_THAT(input_error(folder / "gone.txt", ErrorKind::data), Contains("gone.txt:1: "));
  put_text(folder / "far.txt", "s3://bucket/a.png\n");
  CHECK_THAT(input_error(folder / "far.txt", ErrorKind::data),
             Contains("must be a local path, got 's3://"));
}

TEST_CASE("unlabeled_split: a pipe instead of a list is an error") {
  const TempFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(input_error(folder / "pipe", ErrorKind::config),
             Contains("the list must be a regular file") && !Contains("no such"));
  fs::create_symlink(folder / "pipe", folder / "63");
  CHECK_THAT(input_error(folder / "63", ErrorKind::config), Contains("must be a regular file"));
}

TEST_CASE("unlabeled_split: images need transforms that give them one size") {
  const TempFolder folder;
  put_text(folder / "a.png", "bytes");
  const Unlabeled plain = unlabeled_split(folder.path(), {});
  const SplitCheck unfit = check_split(plain.split, spec::CacheMode::automatic, plain.catalog);
  REQUIRE(unfit.problems.size() == 1);
  CHECK_THAT(unfit.problems[0].message, Contains("add a transform that gives all images one size"));
  const spec::transform::CenterCrop crop{{std::vector<int>{6}}};
  const Unlabeled cropped =
      unlabeled_split(folder.path(), {config::make_stage("transform", "center_crop", crop)});
  const SplitCheck check = check_split(cropped.split, spec::CacheMode::automatic, cropped.catalog);
  REQUIRE(check.problems.empty());
  CHECK(check.facts->layout[0] == Field{"image", Dtype::u8, {6, 6, 3}});
  CHECK(check.facts->samples == 1);
}

TEST_CASE("has_same_inputs: ignores the type of the labels") {
  const Field image{"image", Dtype::u8, {4, 5, 3}};
  const Field number{"label", Dtype::i64, {}};
  const Field targets{"label", Dtype::f32, {3}};
  CHECK(has_same_inputs({image, number}, {targets, image}));
  CHECK_FALSE(has_same_inputs({image, number}, {{"image", Dtype::u8, {5, 5, 3}}, number}));
  CHECK_FALSE(has_same_inputs({image, number}, {{"features", Dtype::f32, {4}}, number}));
  CHECK(has_same_inputs({image}, {image}));
  CHECK_FALSE(has_same_inputs({image}, {image, number}));
}
