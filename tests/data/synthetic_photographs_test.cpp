#include "data/dataset/synthetic_photographs.hpp"

#include "data/image/codec/decoder.hpp"
#include "data/refusing_thread.hpp"
#include "data/sources.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <filesystem>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
namespace fs = std::filesystem;

namespace {

spec::dataset::SyntheticPhotographs photographs(std::int64_t samples) {
  spec::dataset::SyntheticPhotographs options;
  options.samples = samples;
  return options;
}

std::vector<fs::path> photographs_of(std::vector<fs::path> files) {
  std::erase_if(files, [](const fs::path& file) { return file.extension() != ".jpg"; });
  std::ranges::sort(files);
  return files;
}

}  // namespace

TEST_CASE("synthetic_photographs: pixels depend only on split and index") {
  const auto pixels = draw_photograph({0, 5});
  CHECK(pixels.size() == kPhotographShape.bytes());
  CHECK(draw_photograph({0, 5}) == pixels);
  CHECK(draw_photograph({1, 5}) != pixels);
  CHECK(draw_photograph({0, 13}) != pixels);
  CHECK(photograph_class({0, 5}) == photograph_class({1, 13}));
}

TEST_CASE("synthetic_photographs: the files are as large and detailed as photographs") {
  const CacheHome cache;
  const auto dataset = build("synthetic_photographs", photographs(16));
  std::vector<std::byte> scratch;
  ImageDecoder decoder;
  std::size_t bytes = 0;
  for (std::int64_t i = 0; i < 16; ++i) {
    const StoredImage image = dataset->images()->read(i, scratch);
    CHECK(decoder.open(image.bytes) == kPhotographShape);
    bytes += image.bytes.size();
  }
  CHECK(bytes / 16 > 30'000);
  CHECK(bytes / 16 < 150'000);
}

TEST_CASE("synthetic_photographs: facts need no files and equal those of the data set") {
  const CacheHome cache;
  const Facts before = facts("synthetic_photographs", photographs(12));
  CHECK(photographs_of(cache.files()).empty());
  const auto dataset = build("synthetic_photographs", photographs(12));
  CHECK(before.samples == dataset->size());
  CHECK(before.layout == dataset->layout());
  CHECK(before.class_names == dataset->class_names());
  CHECK(before.classes == dataset->classes());
  CHECK(photographs_of(cache.files()).size() == 12);
}

TEST_CASE(
    "synthetic_photographs: files are drawn once, and a missing or empty file is drawn again") {
  const CacheHome cache;
  const std::string content = build("synthetic_photographs", photographs(12))->fingerprint();
  const std::vector<fs::path> files = photographs_of(cache.files());
  const auto drawn_at = fs::last_write_time(files[3]);
  CHECK(build("synthetic_photographs", photographs(12))->fingerprint() == content);
  CHECK(fs::last_write_time(files[3]) == drawn_at);
  SECTION("missing") { fs::remove(files[5]); }
  SECTION("empty") { fs::resize_file(files[5], 0); }
  const auto again = build("synthetic_photographs", photographs(12));
  CHECK(again->size() == 12);
  CHECK(fs::file_size(files[5]) > 0);
  CHECK(photographs_of(cache.files()).size() == 12);
}

TEST_CASE("synthetic_photographs: files are in the given folder, and one thread is enough") {
  const CacheHome cache;
  const TempFolder folder;
  spec::dataset::SyntheticPhotographs options = photographs(4);
  options.folder = folder / "pictures";
  without_threads([&] { (void)build("synthetic_photographs", options); });
  CHECK(fs::exists(folder / "pictures/v1-train-4/beach/000000.jpg"));
  CHECK(photographs_of(cache.files()).empty());
}

TEST_CASE("synthetic_photographs: a folder that cannot be written is an error with its path") {
  const CacheHome cache;
  const TempFolder folder;
  put_text(folder / "file", "no folder");
  spec::dataset::SyntheticPhotographs options = photographs(4);
  options.folder = folder / "file";
  CHECK_THAT(failure_of([&] { (void)build("synthetic_photographs", options); }),
             Contains((folder / "file").string()));
}
