#include "data/image/decoding.hpp"
#include "data/image_files.hpp"
#include "data/transform_of.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

using Steps = std::vector<std::shared_ptr<const Transform>>;

Steps augmented() {
  return {transform_of("random_resized_crop", spec::transform::RandomResizedCrop{{{16}}}),
          transform_of("random_horizontal_flip", spec::transform::RandomHorizontalFlip{})};
}

Steps evaluated() {
  return {transform_of("resize", spec::transform::Resize{{{20}}, {}}),
          transform_of("center_crop", spec::transform::CenterCrop{{{16}}})};
}

std::vector<NamedFile> sound_files(std::int64_t count) {
  std::vector<NamedFile> files;
  for (std::int64_t i = 0; i < count; ++i) {
    const JpegKind kind{.horizontal = 1 + static_cast<int>(i % 2), .progressive = i % 5 == 0};
    files.push_back(
        {fmt::format("cat/{}.jpg", i), jpeg_file(shades({30 + i % 17, 40 + i % 13, 3}), kind)});
  }
  return files;
}

LoaderOptions decoding_options(int workers) {
  LoaderOptions options;
  options.batch_size = 16;
  options.num_workers = workers;
  options.tile_rows = workers == 0 ? 0 : 5;
  options.seed = 3;
  return options;
}

/// Returns two hundred files, of which four cannot be read; some others are unusual but valid.
std::vector<NamedFile> folder_with_damage() {
  std::vector<NamedFile> files = sound_files(200);
  files[10] = {"cat/cut.jpg", cut(files[10].bytes, files[10].bytes.size() * 2 / 3)};
  files[60] = {"cat/empty.jpg", {}};
  files[110] = {"cat/flipped.png", golden_file("png rgb")};
  files[110].bytes[200] ^= std::byte{1};
  files[160] = {"cat/text.jpg", File(100, std::byte{'x'})};
  files[5] = {"cat/a_png.jpg", golden_file("png rgb")};
  files[6] = {"cat/cmyk.jpg", golden_file("jpeg cmyk")};
  files[7] = {"cat/deep.png", golden_file("png rgb of 16 bits")};
  files[8] = {"cat/dot.jpg", golden_file("jpeg 1x1")};
  files[9] = {"cat/turned.jpg", golden_file("jpeg turned by exif")};
  return files;
}

const std::set<std::int64_t> kDamaged{10, 60, 110, 160};

LoaderOptions skipping(int workers, std::int64_t most) {
  LoaderOptions options = decoding_options(workers);
  options.on_error = OnError::skip;
  options.max_skipped = most;
  return options;
}

std::vector<std::string> names(const Loader& loader) {
  std::vector<std::string> all;
  for (const SkippedSample& sample : loader.skipped()) all.push_back(sample.name);
  return all;
}

}  // namespace

TEST_CASE(
    "Loader: batches of encoded and raw images are bitwise equal, for any workers and epoch") {
  const std::vector<NamedFile> files = sound_files(53);
  std::vector<Picture> pictures;
  for (const NamedFile& file : files) pictures.push_back(decoded(file.bytes));
  const auto encoded = std::make_shared<const ImageFiles>(files);
  const auto raw = std::make_shared<const ImageFiles>(pictures);
  for (const Steps& steps : {augmented(), evaluated()}) {
    Loader reference({raw, steps}, decoding_options(0));
    std::vector<std::vector<Copy>> expected;
    for (int epoch = 0; epoch < 3; ++epoch) expected.push_back(read_epoch(reference, epoch));
    for (const int workers : {0, 1, 2, 8}) {
      Loader loader({encoded, steps}, decoding_options(workers));
      // From the second epoch on, files are only read as far as needed.
      for (std::size_t epoch = 0; epoch < 3; ++epoch) {
        REQUIRE(read_epoch(loader, static_cast<std::int64_t>(epoch)) == expected[epoch]);
      }
    }
  }
}

TEST_CASE("Loader: a damaged file is an error with its name") {
  const auto dataset = std::make_shared<const ImageFiles>(folder_with_damage());
  LoaderOptions options = decoding_options(2);
  options.order = Order::sequential;
  Loader loader({dataset, augmented()}, options);
  CHECK_THAT(failure_of([&] { read_epoch(loader, 0); }),
             Contains("9: epoch 1, batch 1: cat/cut.jpg: damaged JPEG: "));
  CHECK(loader.skipped().empty());
}

TEST_CASE(
    "skipped samples: the replacements are the same for any workers, and each file is listed "
    "once") {
  const auto dataset = std::make_shared<const ImageFiles>(folder_with_damage());
  Loader reference({dataset, augmented()}, skipping(0, 4));
  const std::vector<std::vector<Copy>> expected{read_epoch(reference, 0), read_epoch(reference, 1)};
  CHECK(names(reference) == std::vector<std::string>{"cat/cut.jpg", "cat/empty.jpg",
                                                     "cat/flipped.png", "cat/text.jpg"});
  CHECK_THAT(reference.skipped()[1].reason, Contains("the image file is empty"));
  for (const int workers : {1, 2, 8}) {
    Loader loader({dataset, augmented()}, skipping(workers, 4));
    for (std::size_t epoch = 0; epoch < 2; ++epoch) {
      REQUIRE(read_epoch(loader, static_cast<std::int64_t>(epoch)) == expected[epoch]);
    }
    CHECK(names(loader) == names(reference));
  }
}

TEST_CASE("Loader: skipped() can be called while the workers find more damaged files") {
  const auto dataset = std::make_shared<const ImageFiles>(folder_with_damage());
  Loader loader({dataset, augmented()}, skipping(8, 4));
  loader.start_epoch(0);
  std::size_t met = 0;
  while (loader.next() != nullptr) {
    const std::size_t now = loader.skipped().size();
    CHECK(now >= met);
    met = now;
  }
  CHECK(met == 4);
}

TEST_CASE("skipped samples: each replacement has its own label") {
  const std::vector<NamedFile> files = folder_with_damage();
  std::map<std::int64_t, Picture> pictures;
  for (std::int64_t i = 0; i < std::ssize(files); ++i) {
    if (kDamaged.contains(i)) continue;
    Picture whole = decoded(files[static_cast<std::size_t>(i)].bytes);
    for (const auto& step : evaluated()) whole = applied(*step, whole.view());
    pictures[i] = whole;
  }
  Loader loader({std::make_shared<const ImageFiles>(files), evaluated()}, skipping(0, 10));
  loader.start_epoch(0);
  std::size_t rows = 0;
  while (const Batch* batch = loader.next()) {
    const auto labels = labels_of(*batch);
    for (std::size_t row = 0; row < labels.size(); ++row, ++rows) {
      REQUIRE(pictures.contains(labels[row]));
      const auto image = batch->fields[0].subspan(row * 768, 768);
      REQUIRE(std::ranges::equal(image, std::as_bytes(std::span(pictures[labels[row]].pixels))));
    }
  }
  CHECK(rows == 200);
}

TEST_CASE("max_skipped: one more damaged file is an error") {
  const auto dataset = std::make_shared<const ImageFiles>(folder_with_damage());
  LoaderOptions options = skipping(0, 2);
  options.order = Order::sequential;
  Loader loader({dataset, augmented()}, options);
  const std::string failure = failure_of([&] { read_epoch(loader, 0); });
  CHECK_THAT(failure, Contains("9: "));
  CHECK_THAT(failure, Contains("cat/flipped.png: damaged PNG: "));
  CHECK_THAT(failure, Contains("(dataset.max_skipped allows only 2 damaged samples)"));
  CHECK(names(loader) == std::vector<std::string>{"cat/cut.jpg", "cat/empty.jpg"});
}

TEST_CASE("max_skipped: the error is in the same batch for any number of workers") {
  const auto dataset = std::make_shared<const ImageFiles>(folder_with_damage());
  std::vector<std::string> failures;
  for (const int workers : {0, 1, 8, 8, 8}) {
    LoaderOptions options = skipping(workers, 2);
    options.order = Order::sequential;
    options.prefetch_factor =
        8;  // the workers find all damaged files before the first batch is consumed
    Loader loader({dataset, augmented()}, options);
    loader.start_epoch(0);
    int batches = 0;
    failures.push_back(failure_of([&] {
      for (; loader.next() != nullptr; ++batches)
        std::this_thread::sleep_for(std::chrono::milliseconds(workers == 0 ? 0 : 20));
    }));
    CHECK(batches == 6);  // of 16 rows; sample 110 is in the seventh
    CHECK(names(loader) == std::vector<std::string>{"cat/cut.jpg", "cat/empty.jpg"});
  }
  CHECK_THAT(failures[0], StartsWith("9: epoch 1, batch 7: cat/flipped.png: damaged PNG"));
  for (const std::string& failure : failures) CHECK(failure == failures[0]);
}

TEST_CASE("max_skipped: a data set without a readable image is an error, with any limit") {
  std::vector<NamedFile> files(20, NamedFile{"empty.jpg", {}});
  Loader loader({std::make_shared<const ImageFiles>(files), augmented()}, skipping(2, 1000));
  loader.start_epoch(0);
  CHECK_THAT(failure_of([&] { loader.next(); }), Contains("the image file is empty"));
}

TEST_CASE("skipped samples: a sample without an image can be skipped too") {
  auto dataset = std::make_shared<CountingDataset>(40);
  dataset->before = [](std::int64_t index) {
    ENSURE(data, index != 13, "row {} is damaged", index);
  };
  const auto read = [&](int workers) {
    Loader loader({dataset, {}, {}}, skipping(workers, 1));
    auto epoch = read_epoch(loader, 0);
    CHECK(names(loader) == std::vector<std::string>{"sample 13"});
    return epoch;
  };
  CHECK(read(0) == read(3));
}

TEST_CASE("default_max_skipped: is a thousandth of the samples, at least 1 and at most 100") {
  CHECK(default_max_skipped(5) == 1);
  CHECK(default_max_skipped(4'500) == 4);
  CHECK(default_max_skipped(1'281'167) == 100);
}
