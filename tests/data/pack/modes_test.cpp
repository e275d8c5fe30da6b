#include "data/cache/image_cache.hpp"
#include "data/core/registry.hpp"
#include "data/dataset/pack.hpp"
#include "data/loader/measurements.hpp"
#include "data/pack/jpeg_files.hpp"
#include "data/pack/make_pack.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

std::shared_ptr<const FileDataset> pictures() {
  std::vector<std::vector<std::byte>> files;
  for (int i = 0; i < 20; ++i) {
    files.push_back(jpeg_file({40 + 3 * i, 100 - 2 * i, i % 5 == 4 ? 1 : 3}, i,
                              i % 3 == 0 ? Scans::progressive : Scans::baseline));
  }
  return std::make_shared<FileDataset>(std::move(files));
}

Pipeline cropped(std::shared_ptr<const Dataset> dataset) {
  spec::transform::RandomCrop crop;
  crop.size = {{24}};
  return {std::move(dataset),
          {builtin_catalog().transforms.at("random_crop")(
              config::make_stage("transform", "random_crop", crop))},
          {},
          {}};
}

std::vector<std::uint64_t> digests(const Pipeline& pipeline, int workers = 0) {
  LoaderOptions options;
  options.batch_size = 6;
  options.num_workers = workers;
  return digest_epochs(pipeline, options, 2).epochs;
}

PackOptions options_of(PackMode mode, std::optional<std::int64_t> size = {}) {
  PackOptions options;
  options.mode = mode;
  options.size = size;
  return options;
}

std::shared_ptr<const PackDataset> packed(const Dataset& source, const fs::path& path,
                                          const PackOptions& options) {
  make_pack(source, path, options);
  return std::make_shared<PackDataset>(path);
}

}  // namespace

TEST_CASE("make_pack: packs of any mode and cache give the same batches as the files") {
  const TempFolder folder;
  const auto source = pictures();
  const std::vector<std::uint64_t> expected = digests(cropped(source));
  for (const PackMode mode : {PackMode::keep, PackMode::baseline, PackMode::raw}) {
    const auto pack = packed(*source, folder / pack_recipe(options_of(mode)), options_of(mode));
    for (const auto cache :
         {spec::CacheMode::none, spec::CacheMode::encoded, spec::CacheMode::decoded}) {
      for (const std::shared_ptr<const Dataset>& dataset :
           {std::shared_ptr<const Dataset>(source), std::shared_ptr<const Dataset>(pack)}) {
        CacheBudget budget;
        budget.mode = cache;
        budget.left = 16 << 20;
        const Pipeline pipeline = with_cache(cropped(dataset), budget);
        for (const int workers : {0, 2}) REQUIRE(digests(pipeline, workers) == expected);
      }
    }
  }
}

TEST_CASE("make_pack: an entry has the size and the label of its image") {
  const TempFolder folder;
  for (const PackMode mode : {PackMode::keep, PackMode::raw}) {
    const fs::path path = folder / pack_recipe(options_of(mode));
    make_pack(*pictures(), path, options_of(mode));
    const std::string bytes = golden::read(path);
    const PackEntry entry = PackView(std::as_bytes(std::span(bytes)), "pack").entry(3);
    CHECK((entry.height == 49 && entry.width == 94 && entry.channels == 3));
    CHECK(entry.label == 1);
  }
}

TEST_CASE("make_pack: resize limits the shorter side, and copies smaller baseline files") {
  const TempFolder folder;
  const auto source = pictures();
  const auto pack = packed(*source, folder / "small", options_of(PackMode::resize, 48));
  std::vector<std::byte> scratch;
  PixelReader reader;
  CHECK(std::ranges::equal(pack->read(1, scratch).bytes,
                           source->read(1, scratch).bytes));  // 43 x 98, baseline
  CHECK(reader.shape(pack->read(0, scratch)) == ImageShape{40, 100, 3});
  CHECK(!decode_jpeg(pack->read(0, scratch).bytes).progressive);
  CHECK(reader.shape(pack->read(10, scratch)) == ImageShape{48, 54, 3});  // 70 x 80
  CHECK(reader.shape(pack->read(14, scratch)) == ImageShape{54, 48, 3});  // 82 x 72
  const std::string expected = golden::read(folder / "small");
  PackOptions many = options_of(PackMode::resize, 48);
  many.workers = 4;
  make_pack(*source, folder / "again", many);
  CHECK(golden::read(folder / "again") == expected);
}

TEST_CASE("make_pack: raw accepts a size, and images of one size have a fixed layout") {
  const TempFolder folder;
  std::vector<std::vector<std::byte>> files;
  for (int i = 0; i < 4; ++i)
    files.push_back(jpeg_file({60 + 20 * i, 60 + 20 * i, 3}, i, Scans::baseline));
  const auto pack = packed(FileDataset(files), folder / "raw", options_of(PackMode::raw, 32));
  CHECK(pack->layout()[0].shape == std::vector<std::int64_t>{32, 32, 3});
  CHECK(digests({pack, {}, {}, {}}) == digests({pack, {}, {}, {}}, 2));
}

TEST_CASE("pack_recipe: contains every option that changes the bytes, and the key depends on it") {
  CHECK(pack_recipe(options_of(PackMode::keep, 256)) == "keep");
  CHECK(pack_recipe(options_of(PackMode::raw)) == "raw");
  CHECK(pack_recipe(options_of(PackMode::raw, 256)) == "raw, shorter side at most 256");
  CHECK(pack_recipe(options_of(PackMode::resize, 256)) ==
        "resize, shorter side at most 256, JPEG quality 90");
  CHECK(pack_key("a", "keep") != pack_key("a", "raw"));
  CHECK(pack_key("a", "keep") != pack_key("b", "keep"));
}

TEST_CASE("make_pack: resize is an error for grayscale images") {
  const TempFolder folder;
  CHECK_THAT(failure_of([&] {
               make_pack(CountingDataset(3), folder / "x", options_of(PackMode::resize, 2));
             }),
             Contains("2: --mode resize writes JPEG images") && Contains("use --mode raw"));
}
