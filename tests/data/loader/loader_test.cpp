#include "data/loader/loader.hpp"

#include "data/core/registry.hpp"
#include "data/core/run_control.hpp"
#include "data/fakes.hpp"
#include "data/loader/measurements.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <set>
#include <thread>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

Pipeline augmented(std::int64_t size) {
  const Catalog catalog = builtin_catalog();
  spec::transform::RandomCrop crop;
  crop.size = {{4}};
  crop.padding = {{2}};
  Pipeline pipeline = counting(size);
  pipeline.transforms = {
      catalog.transforms.at("random_crop")(config::make_stage("transform", "random_crop", crop)),
      catalog.transforms.at("random_horizontal_flip")(config::make_stage(
          "transform", "random_horizontal_flip", spec::transform::RandomHorizontalFlip{})),
  };
  return pipeline;
}

LoaderOptions options_of(int workers, int prefetch, std::int64_t tile_rows) {
  LoaderOptions options;
  options.batch_size = 8;
  options.num_workers = workers;
  options.prefetch_factor = prefetch;
  options.tile_rows = tile_rows;
  options.seed = 11;
  return options;
}

}  // namespace

TEST_CASE("Loader: batches are bitwise equal for any workers, prefetch_factor and tile size") {
  constexpr int kEpochs = 3;
  for (const Pipeline& pipeline : {counting(61), augmented(61)}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      LoaderOptions options = options_of(0, 1, 0);
      options.shard = {ranks - 1, ranks};
      std::vector<std::vector<Copy>> expected;
      Loader reference(pipeline, options);
      for (int epoch = 0; epoch < kEpochs; ++epoch)
        expected.push_back(read_epoch(reference, epoch));
      for (const int workers : {0, 1, 2, 8}) {
        for (const int prefetch : {1, 2, 4}) {
          for (const std::int64_t tile : {0, 3}) {
            LoaderOptions other = options_of(workers, prefetch, tile);
            other.shard = options.shard;
            Loader loader(pipeline, other);
            for (int epoch = 0; epoch < kEpochs; ++epoch) {
              REQUIRE(read_epoch(loader, epoch) == expected[static_cast<std::size_t>(epoch)]);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("Loader: an epoch has every sample once, in another order than the previous epoch") {
  Loader loader(counting(61), options_of(2, 2, 0));
  CHECK(loader.batches_per_epoch() == 8);
  std::vector<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::int64_t> seen;
    loader.start_epoch(epoch);
    while (const Batch* batch = loader.next()) {
      CHECK(batch->epoch == epoch);
      CHECK(batch->rows == (batch->index == 7 ? 5 : 8));
      const auto labels = labels_of(*batch);
      seen.insert(seen.end(), labels.begin(), labels.end());
    }
    CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 61);
    orders.push_back(seen);
  }
  CHECK(orders[0] != orders[1]);
}

TEST_CASE("Loader: the sequential order is the order of the data set") {
  LoaderOptions options = options_of(0, 1, 0);
  options.order = Order::sequential;
  Loader loader(counting(10), options);
  loader.start_epoch(0);
  CHECK(labels_of(*loader.next()) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(labels_of(*loader.next()) == std::vector<std::int64_t>{8, 9});
  CHECK(loader.next() == nullptr);
  CHECK(loader.next() == nullptr);
}

TEST_CASE("Loader: a rank without samples gets one row of padding that does not count") {
  LoaderOptions options = options_of(0, 1, 0);
  options.order = Order::sequential;
  options.batch_size = 2;
  options.shard = {2, 3};
  Loader loader(counting(7), options);
  loader.start_epoch(0);
  CHECK(labels_of(*loader.next()) == std::vector<std::int64_t>{2, 5});
  const Batch* last = loader.next();
  CHECK(last->rows == 1);
  CHECK(last->valid == 0);
  CHECK(last->global_valid == 1);
  CHECK(labels_of(*last) == std::vector<std::int64_t>{6});
  CHECK(digest_of(*last, loader.layout()) == 0);
}

TEST_CASE("Loader: start_epoch() gives the batches of any epoch, also after an unfinished one") {
  Loader reference(augmented(61), options_of(0, 1, 0));
  for (const int workers : {0, 1, 3}) {
    Loader loader(augmented(61), options_of(workers, 2, 3));
    for (const std::int64_t epoch : {7, 8, 2, 2, 1000, 3}) {
      REQUIRE(read_epoch(loader, epoch) == read_epoch(reference, epoch));
      loader.start_epoch(epoch + 1);
      loader.next();
    }
  }
}

TEST_CASE("Loader: epochs of one batch are correct with several epochs in flight") {
  Loader reference(counting(5), options_of(0, 1, 0));
  Loader loader(counting(5), options_of(3, 4, 2));
  for (std::int64_t epoch = 0; epoch < 50; ++epoch)
    REQUIRE(read_epoch(loader, epoch) == read_epoch(reference, epoch));
}

TEST_CASE("Loader: a batch size above the samples gives one short batch without extra memory") {
  for (const int ranks : {1, 2, 3}) {
    LoaderOptions large = options_of(2, 2, 0);
    large.shard = {ranks - 1, ranks};
    LoaderOptions exact = large;
    large.batch_size = 1'000'000;
    exact.batch_size = 6;
    Loader loader(counting(5), large);
    Loader reference(counting(5), exact);
    CHECK(loader.batches_per_epoch() == 1);
    CHECK(loader.memory().size() <= reference.memory().size());
    for (std::int64_t epoch = 0; epoch < 3; ++epoch)
      CHECK(read_epoch(loader, epoch) == read_epoch(reference, epoch));
  }
}

TEST_CASE("Loader: workers start the next epoch before start_epoch()") {
  auto dataset = std::make_shared<CountingDataset>(32);
  std::atomic<int> filled{0};
  dataset->before = [&](std::int64_t) { ++filled; };
  Loader loader({dataset, {}, {}}, options_of(1, 4, 0));
  read_epoch(loader, 0);
  for (int wait = 0; wait < 60'000 && filled < 64; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(filled == 64);
}

TEST_CASE("Loader: next() rethrows a worker's exception, then continues with the next batch") {
  for (const int workers : {0, 1, 2, 8}) {
    for (std::int64_t bad = 0; bad < 24; bad += 5) {
      auto dataset = std::make_shared<CountingDataset>(24);
      dataset->before = [bad](std::int64_t index) {
        ENSURE(data, index != bad, "sample {} is damaged", index);
      };
      LoaderOptions options = options_of(workers, 2, 3);
      options.order = Order::sequential;
      Loader loader({dataset, {}, {}}, options);
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        loader.start_epoch(epoch);
        for (std::int64_t batch = 0; batch < 3; ++batch) {
          std::int64_t first = -1;
          const std::string failure =
              failure_of([&] { first = labels_of(*loader.next()).front(); });
          const bool hit = bad / 8 == batch;
          CHECK(first == (hit ? -1 : 8 * batch));
          CHECK(failure == (hit ? fmt::format("9: epoch {}, batch {}: sample {} is damaged",
                                              epoch + 1, batch + 1, bad)
                                : ""));
        }
        CHECK(loader.next() == nullptr);
      }
    }
  }
}

TEST_CASE("Loader: an exception of another type is rethrown unchanged") {
  auto dataset = std::make_shared<CountingDataset>(8);
  dataset->before = [](std::int64_t) { throw std::bad_alloc(); };
  Loader loader({dataset, {}, {}}, options_of(2, 2, 0));
  loader.start_epoch(0);
  CHECK_THROWS_AS(loader.next(), std::bad_alloc);
}

TEST_CASE("Loader: the destructor works at any moment, and no worker reads after it") {
  std::atomic<int> destroyed = 0;
  std::atomic<int> late_reads = 0;
  for (int round = 0; round < 60; ++round) {
    auto dataset = std::make_shared<CountingDataset>(200);
    dataset->before = [&, round](std::int64_t index) {
      if (destroyed > round) ++late_reads;
      if (round % 3 == 1) std::this_thread::yield();
      if (round % 3 == 2) ENSURE(data, index % 2 == 0, "odd");
    };
    {
      Loader loader({dataset, {}, {}}, options_of(round % 5, 2, 3));
      if (round % 2 == 1) loader.start_epoch(round);
      for (int batch = 0; round % 2 == 1 && batch < round % 7; ++batch) {
        std::int64_t index = -1;
        const std::string failure = failure_of([&] { index = loader.next()->index; });
        CHECK((failure.empty() ? index == batch : round % 3 == 2 && failure.ends_with("odd")));
      }
    }
    destroyed = round + 1;
    CHECK(dataset.use_count() == 1);
  }
  CHECK(late_reads == 0);
}

TEST_CASE("digest_epochs: digests are the same for any workers and ranks") {
  const Pipeline pipeline = augmented(61);
  const EpochDigests expected = digest_epochs(pipeline, options_of(0, 1, 0), 3);
  CHECK(expected.epochs[0] != expected.epochs[1]);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const int workers : {0, 1, 2, 8}) {
      LoaderOptions options = options_of(workers, ranks, 3);
      options.shard.world_size = ranks;
      const EpochDigests found = digest_epochs(pipeline, options, 3);
      CHECK(found.digest == expected.digest);
      CHECK(found.epochs == expected.epochs);
    }
  }
}

TEST_CASE("digest: depends on pixels, labels and positions") {
  const Layout layout{{"image", Dtype::u8, {2}}, {"label", Dtype::i64, {}}};
  std::vector<std::byte> pixels(2);
  std::vector<std::byte> label(8);
  Batch batch;
  batch.rows = batch.valid = 1;
  batch.fields = {pixels, label};
  const std::uint64_t before = digest_of(batch, layout);
  pixels[1] = std::byte{1};
  const std::uint64_t changed_pixel = digest_of(batch, layout);
  label[0] = std::byte{1};
  const std::uint64_t changed_label = digest_of(batch, layout);
  batch.position = 1;
  const std::uint64_t moved = digest_of(batch, layout);
  CHECK(std::set<std::uint64_t>{before, changed_pixel, changed_label, moved}.size() == 4);
}

TEST_CASE("Loader: every field begins at a multiple of 64 bytes within the memory of the ring") {
  LoaderOptions options = options_of(2, 2, 0);
  options.batch_size = 3;
  Loader loader(counting(30), options);
  const auto memory = loader.memory();
  loader.start_epoch(0);
  while (const Batch* batch = loader.next()) {
    for (const auto field : batch->fields) {
      CHECK(reinterpret_cast<std::uintptr_t>(field.data()) % 64 == 0);
      CHECK(field.data() >= memory.data());
      CHECK(field.data() + field.size() <= memory.data() + memory.size());
    }
  }
}

TEST_CASE("Ring: the memory budget limits the slots, and less than two slots are an error") {
  LoaderOptions options = options_of(4, 4, 0);  // a slot takes 8 * 16 + 8 * 8 = 192 bytes
  options.memory_budget = 192 * 5;
  Loader loader(counting(61), options);
  CHECK(loader.memory().size() == 192 * 5);
  CHECK(read_epoch(loader, 0).size() == 8);
  options.memory_budget = 192 * 2 - 1;
  const std::string failure = failure_of([&] { Loader refused(counting(61), options); });
  CHECK_THAT(failure, Contains("11: 2 batches of 8 samples need 384"));
  CHECK_THAT(failure, Contains("lower loader.batch_size"));
}

TEST_CASE("Loader: worker threads get the requested priority, the caller keeps its own") {
  const auto nice_value = [](LoaderOptions options) {
    auto dataset = std::make_shared<CountingDataset>(40);
    std::atomic<int> seen = -100;
    dataset->before = [&](std::int64_t) {
      seen = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
    };
    options.batch_size = 8;
    Loader loader({dataset, {}, {}}, options);
    read_epoch(loader, 0);
    return seen.load();
  };
  const int ours = ::getpriority(PRIO_PROCESS, 0);
  CHECK(nice_value({.num_workers = 0, .priority = Priority::below_trainer}) == ours);
  CHECK(nice_value({.num_workers = 2, .priority = Priority::normal}) == ours);
  CHECK(nice_value({.num_workers = 2, .priority = Priority::below_trainer}) ==
        std::min(ours + 5, 19));
  CHECK(::getpriority(PRIO_PROCESS, 0) == ours);
}

TEST_CASE("Loader: loaded samples are counted while a watcher is active") {
  std::atomic<std::int64_t> counter = 0;
  {
    const ProgressCount count(&counter);
    CHECK(counter == 1);
    Loader loader(counting(64), options_of(2, 2, 0));
    CHECK(read_epoch(loader, 0).size() == 8);
    CHECK(counter >= 9);
  }
  const std::int64_t before = counter;
  Loader unwatched(counting(64), options_of(0, 1, 0));
  (void)read_epoch(unwatched, 0);
  CHECK(counter == before);
}

TEST_CASE("Loader: batches after a pause are the same for any epoch") {
  for (const int workers : {0, 1, 3}) {
    Loader reference(counting(61), options_of(workers, 2, 0));
    Loader rested(counting(61), options_of(workers, 2, 0));
    rested.pause();  // before the first epoch
    for (const std::int64_t epoch : {0, 1, 2, 5}) {
      REQUIRE(read_epoch(rested, epoch) == read_epoch(reference, epoch));
      rested.pause();
      rested.pause();
    }
    rested.start_epoch(6);
    CHECK(rested.next() != nullptr);
    rested.pause();  // in the middle of an epoch
    CHECK(read_epoch(rested, 6) == read_epoch(reference, 6));
    rested.pause();  // the destructor must work after it
  }
}

TEST_CASE("Loader: the memory of batches in flight stays valid while later batches are made") {
  const int workers = GENERATE(0, 2);
  LoaderOptions options = options_of(workers, 2, 3);
  options.in_flight = 3;
  Loader loader(counting(200), options);
  REQUIRE(loader.in_flight() == 3);
  const std::size_t slots = workers == 0 ? 4 : 7;
  CHECK(loader.memory().size() % slots == 0);
  struct Flying {
    std::vector<std::span<const std::byte>> fields;
    std::vector<std::vector<std::byte>> copies;
  };
  std::deque<Flying> flying;
  for (const int epoch : {0, 1, 5}) {  // the ring is restarted for the last one
    if (epoch == 5) flying.clear();
    loader.start_epoch(epoch);
    while (const Batch* batch = loader.next()) {
      for (const Flying& one : flying) {
        for (std::size_t i = 0; i < one.fields.size(); ++i)
          REQUIRE(std::ranges::equal(one.fields[i], one.copies[i]));
      }
      Flying now{batch->fields, {}};
      for (const auto field : batch->fields) now.copies.emplace_back(field.begin(), field.end());
      flying.push_back(std::move(now));
      if (flying.size() > 3) flying.pop_front();
    }
  }
}

TEST_CASE("Loader: fewer batches are in flight when memory is short") {
  LoaderOptions options = options_of(2, 2, 0);
  const std::size_t slot = Loader(counting(61), options_of(0, 1, 0)).memory().size();
  options.in_flight = 4;
  options.memory_budget = 3 * slot;
  Loader loader(counting(61), options);
  CHECK(loader.in_flight() == 1);
  CHECK(loader.memory().size() == 3 * slot);
}

TEST_CASE("Loader: the threads compute the digest of each batch") {
  LoaderOptions options = options_of(GENERATE(0, 1, 2), 2, 3);
  options.in_flight = GENERATE(0, 2);
  for (const Pipeline& pipeline : {counting(61), augmented(61)}) {
    options.digests = true;
    Loader loader(pipeline, options);
    for (const int epoch : {0, 1, 7}) {
      loader.start_epoch(epoch);
      while (const Batch* batch = loader.next())
        REQUIRE(batch->digest == digest_of(*batch, loader.layout()));
    }
    options.digests = false;
    Loader without(pipeline, options);
    without.start_epoch(0);
    CHECK(without.next()->digest == 0);
  }
}
