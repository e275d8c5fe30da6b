#include "data/read_ahead/read_ahead.hpp"

#include "data/ahead/file_images.hpp"
#include "data/dataset/pack.hpp"
#include "data/image/codec/png.hpp"
#include "data/loader/loading_plan.hpp"
#include "data/loader/measurements.hpp"
#include "data/pack/make_pack.hpp"
#include "data/refusing_thread.hpp"
#include "data/sources.hpp"
#include "data/tar_files.hpp"
#include "data/varied.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

#include <fcntl.h>

#include <cerrno>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

LoaderOptions ahead_options(int workers, std::optional<int> batches) {
  LoaderOptions options;
  options.batch_size = 8;
  options.num_workers = workers;
  options.tile_rows = 3;
  options.seed = 5;
  options.read_ahead = batches;
  return options;
}

Pipeline pipeline_of(std::shared_ptr<const Dataset> dataset) {
  return {std::move(dataset), {}, {}, {}};
}

/// Compares all epochs with and without read-ahead, with and without threads, and with a consumer
/// that makes batches, which happens when a tile is a whole batch.
void check_same(const Pipeline& pipeline) {
  const auto expected = digest_epochs(pipeline, ahead_options(0, 0), 3).epochs;
  for (const int workers : {0, 1, 3}) {
    for (const std::optional<int> batches : {std::optional(1), {2}, {100}, {}}) {
      for (const std::int64_t rows : {3, 8}) {
        LoaderOptions options = ahead_options(workers, batches);
        options.tile_rows = rows;
        CHECK(digest_epochs(pipeline, options, 3).epochs == expected);
      }
    }
  }
}

std::string png(const TempFolder& folder, int shade) {
  std::vector<std::uint8_t> pixels(12 * 10 * 3, static_cast<std::uint8_t>(shade));
  write_png(folder / "one.png", ImageView(pixels.data(), {12, 10, 3}));
  return get_text(folder / "one.png");
}

void drop_from_page_cache(const fs::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ::fsync(file.get());
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace

TEST_CASE("read_ahead: batches are the same for any number of batches read ahead") {
  const auto images = std::make_shared<FileImages>(101);
  check_same(pipeline_of(images));
  LoaderOptions skewed = ahead_options(2, 3);
  skewed.sampling = ClassSampling{{5, 1, 1, 0}, 150};
  LoaderOptions direct = skewed;
  direct.read_ahead = 0;
  CHECK(digest_epochs(pipeline_of(images), skewed, 3).epochs ==
        digest_epochs(pipeline_of(images), direct, 3).epochs);
}

TEST_CASE("read_ahead: batches are the same if the kernel does not allow io_uring") {
  const auto images = std::make_shared<FileImages>(101);
  const auto expected = digest_epochs(pipeline_of(images), ahead_options(0, 0), 2).epochs;
  images->reads = 0;
  for (const int error : {EPERM, ENOSYS}) {
    without_uring(error, [&] {
      for (const int workers : {0, 2}) {
        if (digest_epochs(pipeline_of(images), ahead_options(workers, 4), 2).epochs != expected)
          throw std::runtime_error("other batches");
      }
    });
  }
  CHECK(images->reads == 0);
}

TEST_CASE("read_ahead: after an error of io_uring, images are no longer read ahead") {
  const auto images = std::make_shared<FileImages>(101);
  const Pipeline pipeline = pipeline_of(images);
  Loader reference(pipeline, ahead_options(0, 0));
  const auto expected = read_epoch(reference, 0);
  without(SYS_io_uring_enter, EPERM, [&] {
    Loader loader(pipeline, ahead_options(2, 4));
    if (read_epoch(loader, 0) != expected) throw std::runtime_error("other batches");
    images->reads = images->opens = images->from_ahead = 0;
    for (int again = 0; again < 3; ++again) {
      if (read_epoch(loader, 0) != expected) throw std::runtime_error("other batches");
    }
  });
  CHECK(images->from_ahead == 0);
  CHECK(images->opens == images->reads);
}

TEST_CASE("read_ahead: no image is read directly") {
  const auto images = std::make_shared<FileImages>(101);
  digest_epochs(pipeline_of(images), ahead_options(2, 4), 2);
  CHECK(images->reads == 0);
  CHECK(images->from_ahead >= 202);
  digest_epochs(pipeline_of(images), ahead_options(2, 0), 2);
  CHECK(images->reads >= 202);
}

TEST_CASE("read_ahead: by default only images outside of the page cache are read ahead") {
  const auto images = std::make_shared<FileImages>(101);
  if (!in_page_cache({images->range(0), images->range(1)}, *images))
    skip("this file system does not report which pages are in memory");
  digest_epochs(pipeline_of(images), ahead_options(2, std::nullopt), 2);
  CHECK(images->from_ahead == 0);
  for (std::size_t file = 0; file < 3; ++file) drop_from_page_cache(images->path(file));
  if (in_page_cache({images->range(0), images->range(1)}, *images))
    skip("this file system keeps its files in memory");
  for (std::size_t file = 0; file < 3; ++file) drop_from_page_cache(images->path(file));
  images->reads = 0;
  digest_epochs(pipeline_of(images), ahead_options(2, std::nullopt), 1);
  CHECK(images->from_ahead > 0);
  CHECK(images->reads < 101);
}

TEST_CASE("read_ahead: packs, shards and image folders give the same batches") {
  const CacheHome cache;
  const TempFolder folder;
  make_pack(CountingDataset(61), folder / "raw.pack", {});
  check_same(pipeline_of(std::make_shared<PackDataset>(folder / "raw.pack")));

  make_pack(VariedDataset(61), folder / "varied.pack", {});
  check_same({std::make_shared<PackDataset>(folder / "varied.pack"),
              {std::make_shared<Corner>(4)},
              {},
              {}});

  std::string shard;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "sample" + std::to_string(i);
    const std::string image = png(folder, i * 9);
    put_text(folder / "classes" / (i % 2 == 0 ? "even" : "odd") / (key + ".png"), image);
    shard += tar_member(key + ".png", image) + tar_member(key + ".cls", std::to_string(i % 2));
  }
  put_text(folder / "shards" / "0.tar", shard + tar_end());
  settle(folder.path());
  spec::dataset::ImageFolder classes;
  classes.root = folder / "classes";
  spec::dataset::Webdataset shards;
  shards.shards = {folder / "shards" / "0.tar"};
  check_same({build("image_folder", classes), {std::make_shared<Corner>(4)}, {}, {}});
  check_same({build("webdataset", shards), {std::make_shared<Corner>(4)}, {}, {}});
}

TEST_CASE("read_ahead: a truncated file is an error with its name and byte, only for its batches") {
  for (const int workers : {0, 2}) {
    const auto images = std::make_shared<FileImages>(101);
    fs::resize_file(images->path(1), 900'000);  // four samples lie after the new end
    Loader loader(pipeline_of(images), ahead_options(workers, 3));
    loader.start_epoch(0);
    int failed = 0;
    std::int64_t rows = 0;
    const std::int64_t batches = loader.batches_per_epoch();
    for (std::int64_t i = 0; i < batches; ++i) {
      const std::string failure = failure_of([&] { rows += loader.next()->rows; });
      if (failure.empty()) continue;
      ++failed;
      CHECK_THAT(failure,
                 StartsWith("9: epoch 1, batch " + std::to_string(i + 1) + ": sample ") &&
                     Contains(images->path(1).string() + " ends at byte 900000, but bytes "));
    }
    CHECK(failed > 0);
    CHECK(failed <= 4);
    CHECK(rows >= (batches - 4) * 8 - 8);
    CHECK(loader.next() == nullptr);
  }
}

TEST_CASE("read_ahead: unreadable samples have the same replacements as without it") {
  const auto images = std::make_shared<FileImages>(101);
  fs::resize_file(images->path(0), 250'000);
  fs::remove(images->path(2));
  const auto digests = [&](int workers, int batches) {
    LoaderOptions options = ahead_options(workers, batches);
    options.on_error = OnError::skip;
    options.max_skipped = 101;
    return digest_epochs(pipeline_of(images), options, 2).epochs;
  };
  const auto expected = digests(0, 0);
  for (const int workers : {0, 2}) CHECK(digests(workers, 5) == expected);
  without_uring(EPERM, [&] {
    if (digests(2, 5) != expected) throw std::runtime_error("other batches");
  });
}

TEST_CASE("read_ahead: a damaged image of a pack is detected") {
  const TempFolder folder;
  make_pack(CountingDataset(40), folder / "raw.pack", {});
  {
    std::fstream file(folder / "raw.pack", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(kPackPage) + 16 * 7 + 3);
    file.put('!');
  }
  Loader loader(pipeline_of(std::make_shared<PackDataset>(folder / "raw.pack")),
                ahead_options(2, 3));
  loader.start_epoch(0);
  std::string failure;
  for (std::int64_t i = 0; i < loader.batches_per_epoch(); ++i)
    failure += failure_of([&] { loader.next(); });
  CHECK_THAT(failure, StartsWith("9: ") && Contains("sample 7: ") &&
                          Contains("the checksum of this image (16 bytes at byte 4208) is wrong"));
}

TEST_CASE("read_ahead: epochs can start at any batch and end early") {
  const auto images = std::make_shared<FileImages>(301);
  Loader reference(pipeline_of(images), ahead_options(0, 0));
  for (const int workers : {0, 2}) {
    Loader loader(pipeline_of(images), ahead_options(workers, 3));
    for (const std::int64_t epoch : {4, 5, 1, 1, 90}) {
      REQUIRE(read_epoch(loader, epoch) == read_epoch(reference, epoch));
      loader.start_epoch(epoch + 1, 7);
      loader.next();
    }
  }
  for (int round = 0; round < 20; ++round) {
    Loader loader(pipeline_of(images), ahead_options(round % 3, 5));
    loader.start_epoch(round, round);
    if (round % 2 == 0) loader.next();
  }
}

TEST_CASE("read_ahead: the buffer is within the budget and part of the memory plan") {
  const auto images = std::make_shared<FileImages>(4000);
  LoaderOptions options = ahead_options(2, 10);
  const std::uint64_t slot = 8 * 2000 + 8 * 8;
  const std::uint64_t ring = 4 * slot;
  const std::uint64_t needed = read_ahead_within_budget(*images, options, ring);
  CHECK(needed >= 2 * 10 * 8 * (2000 + 4096));               // two windows of whole pages
  CHECK(needed <= 2 * (10 * 8 * (2000 + 2 * 4096) + 4096));  // a third window would need more
  CacheBudget none;
  const MemoryPlan plan = memory_plan(pipeline_of(images), options, none);
  CHECK(plan.ahead == needed);
  CHECK(plan.total() == plan.ring() + plan.orders + plan.scratch * 2 + plan.ahead);
  options.memory_budget = ring + needed / 2;
  CHECK(read_ahead_within_budget(*images, options, ring) <= needed / 2);
  options.memory_budget = ring + 5000;
  CHECK(read_ahead_within_budget(*images, options, ring) == 0);
  options.memory_budget = std::nullopt;
  options.read_ahead = 0;
  CHECK(read_ahead_within_budget(*images, options, ring) == 0);
  CHECK(read_ahead_within_budget(CountingDataset(100), ahead_options(2, 10), ring) == 0);
}

TEST_CASE(
    "read_ahead: a buffer smaller than a batch is filled, and other images are read directly") {
  const auto images = std::make_shared<FileImages>(2000);
  LoaderOptions options = ahead_options(2, 1);
  options.batch_size = 1000;
  options.tile_rows = 100;
  LoaderOptions direct = options;
  direct.read_ahead = 0;
  const auto expected = digest_epochs(pipeline_of(images), direct, 1).epochs;
  options.memory_budget = 4 * (1000 * 2008 + 1000) + (4 << 20);
  images->reads = images->from_ahead = 0;
  CHECK(digest_epochs(pipeline_of(images), options, 1).epochs == expected);
  CHECK(images->reads > 0);
  CHECK(images->from_ahead > 0);
}
