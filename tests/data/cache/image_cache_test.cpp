#include "data/cache/image_cache.hpp"

#include "data/core/registry.hpp"
#include "data/loader/measurements.hpp"
#include "data/varied.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

#include <sys/prctl.h>

#include <fstream>
#include <string>
#include <thread>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
using spec::CacheMode;

namespace {

using Steps = std::vector<std::shared_ptr<const Transform>>;

Steps random_steps() {
  const Catalog catalog = builtin_catalog();
  spec::transform::RandomCrop crop;
  crop.size = {{4}};
  const spec::transform::RandomHorizontalFlip flip;
  return {
      catalog.transforms.at("random_crop")(config::make_stage("transform", "random_crop", crop)),
      catalog.transforms.at("random_horizontal_flip")(
          config::make_stage("transform", "random_horizontal_flip", flip))};
}

Steps fixed_then(Steps rest) {
  rest.insert(rest.begin(), std::make_shared<Corner>(5));
  return rest;
}

Pipeline varied(std::int64_t size, Steps steps) {
  return {std::make_shared<VariedDataset>(size), std::move(steps), {}, {}};
}

const VariedDataset& source_of(const Pipeline& pipeline) {
  return dynamic_cast<const VariedDataset&>(*pipeline.dataset);
}

CacheBudget budget_of(CacheMode mode, std::uint64_t bytes = 1 << 20) {
  CacheBudget budget;
  budget.mode = mode;
  budget.left = bytes;
  return budget;
}

Pipeline cached(const Pipeline& pipeline, CacheMode mode) {
  CacheBudget budget = budget_of(mode);
  return with_cache(pipeline, budget);
}

LoaderOptions cache_options(int workers, int ranks = 1) {
  LoaderOptions options;
  options.batch_size = 6;
  options.num_workers = workers;
  options.seed = 5;
  options.shard.world_size = ranks;
  return options;
}

CacheNeed need_of(const Pipeline& pipeline) {
  return cache_need(pipeline, probe_image_sizes(pipeline));
}

/// Reads smaps_rollup, which is exact: statm may miss dozens of pages per core.
std::int64_t resident_kib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Rss:")) return std::stoll(line.substr(4));
  }
  skip("this kernel does not report the memory of a process");
}

/// Disables transparent huge pages, because merging pages would add 2 MiB to the resident size.
class SmallPages {
 public:
  SmallPages() { ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); }
  ~SmallPages() { ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); }
  SmallPages(const SmallPages&) = delete;
  SmallPages& operator=(const SmallPages&) = delete;
};

#if defined(__SANITIZE_THREAD__)
constexpr std::int64_t kMostKib = 4096;  // ThreadSanitizer's shadow memory counts, too
#else
constexpr std::int64_t kMostKib = 256;
#endif

}  // namespace

TEST_CASE("image cache: digests are the same for any mode, workers and ranks") {
  for (const Steps& steps : {random_steps(), fixed_then(random_steps()), fixed_then({})}) {
    const Pipeline plain = varied(41, steps);
    const EpochDigests expected = digest_epochs(plain, cache_options(0), 3);
    for (const CacheMode mode :
         {CacheMode::none, CacheMode::encoded, CacheMode::decoded, CacheMode::automatic}) {
      for (const int workers : {0, 1, 2, 8}) {
        for (const int ranks : {1, 2, 3}) {
          REQUIRE(digest_epochs(cached(plain, mode), cache_options(workers, ranks), 3).epochs ==
                  expected.epochs);
        }
      }
    }
  }
}

TEST_CASE("CachedDataset: digests are the same if the room is too small for all images") {
  const Pipeline plain = varied(41, random_steps());
  const EpochDigests expected = digest_epochs(plain, cache_options(0), 2);
  for (const std::uint64_t room : {0U, 100U, 1000U, 3000U, 100'000U}) {
    for (const int workers : {2, 8}) {
      Pipeline small = plain;
      small.dataset = std::make_shared<CachedDataset>(plain.dataset, room);
      CHECK(digest_epochs(small, cache_options(workers), 2).epochs == expected.epochs);
      Pipeline pixels = plain;
      pixels.dataset = std::make_shared<CachedDataset>(std::make_unique<Prefix>(plain), room);
      CHECK(digest_epochs(pixels, cache_options(workers), 2).epochs == expected.epochs);
    }
  }
}

TEST_CASE("image cache: each image is read once, files at startup and pixels in the first epoch") {
  for (const CacheMode mode : {CacheMode::encoded, CacheMode::decoded}) {
    const Pipeline plain = varied(40, fixed_then(random_steps()));
    const Pipeline with = cached(plain, mode);
    const int looked = 40;  // small data sets are probed completely
    CHECK(source_of(plain).reads == (mode == CacheMode::encoded ? 80 : looked));
    Loader loader(with, cache_options(0));
    for (int epoch = 0; epoch < 4; ++epoch) read_epoch(loader, epoch);
    CHECK(source_of(plain).reads == 80);
  }
}

TEST_CASE("CachedDataset: threads that read the same image store it once and get the same bytes") {
  const auto source = std::make_shared<VariedDataset>(8);
  const CachedDataset cached(std::make_unique<Prefix>(Pipeline{source, {}, {}, {}}),
                             source->bytes());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      std::vector<std::byte> mine;
      std::vector<std::byte> theirs;
      for (int round = 0; round < 200; ++round) {
        const StoredImage found = cached.read(round % 8, mine);
        const StoredImage expected = source->read(round % 8, theirs);
        if (found.raw != expected.raw || !std::ranges::equal(found.bytes, expected.bytes)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  source->reads = 0;
  std::vector<std::byte> scratch;
  for (int i = 0; i < 8; ++i) (void)cached.read(i, scratch);
  CHECK(source->reads == 0);
  CHECK(scratch.empty());
}

TEST_CASE("CachedDataset: load() reports progress every 64 images and at the end") {
  const auto source = std::make_shared<VariedDataset>(130);
  std::vector<std::int64_t> progress;
  CachedDataset(source, source->bytes()).load([&](std::int64_t done, std::int64_t total) {
    CHECK(total == 130);
    progress.push_back(done);
  });
  CHECK(progress == std::vector<std::int64_t>{0, 64, 128, 130});
}

TEST_CASE("choose_cache: auto selects the highest tier that fits the budget") {
  const CacheNeed need{.encoded = 100, .decoded = 500};
  const auto tier = [&](std::uint64_t left) {
    return choose_cache(need, budget_of(CacheMode::automatic, left)).tier;
  };
  CHECK(tier(500) == CacheTier::decoded);
  CHECK(tier(499) == CacheTier::encoded);
  CHECK(tier(99) == CacheTier::none);
  CHECK(choose_cache({.encoded = 100}, budget_of(CacheMode::automatic, 900)).tier ==
        CacheTier::encoded);
  CHECK(choose_cache({}, budget_of(CacheMode::decoded, 0)).tier == CacheTier::none);
  CHECK(choose_cache(need, budget_of(CacheMode::none, 900)).tier == CacheTier::none);
}

TEST_CASE("choose_cache: a requested tier that does not fit is an error with both sizes") {
  const CacheNeed need{.encoded = 3 << 20, .decoded = 9 << 20};
  CHECK_THAT(failure_of([&] { choose_cache(need, budget_of(CacheMode::decoded, 4 << 20)); }),
             Contains("11: the decoded images need about 9.0 MiB, but only 4.0 MiB of "
                      "dataset.cache.budget is left"));
  CHECK(choose_cache(need, budget_of(CacheMode::encoded, 4 << 20)).tier == CacheTier::encoded);
  CHECK_THAT(failure_of([&] { choose_cache(need, budget_of(CacheMode::device)); }),
             Contains("2: dataset.cache.mode"));
}

TEST_CASE("cache_need: measures the files and the pixels after the fixed transforms") {
  const Pipeline plain = varied(40, random_steps());
  const std::uint64_t books = ImageStash::bookkeeping(40, {});
  CHECK(need_of(plain).encoded == source_of(plain).bytes() + books);
  CHECK(need_of(plain).decoded == source_of(plain).bytes() + books);
  CHECK(need_of(varied(40, fixed_then(random_steps()))).decoded == 40 * (5 * 5 * 3 + 1));
  // In a large data set, 256 images are probed and a tenth is added.
  const std::uint64_t many = need_of(varied(4096, random_steps())).encoded;
  const double exact = static_cast<double>(VariedDataset(4096).bytes());
  CHECK(std::abs(static_cast<double>(many - ImageStash::bookkeeping(4096, {})) / exact - 1.1) <
        0.02);
}

TEST_CASE("CacheBudget: splits share the budget, and the ranks of a machine divide it") {
  const Pipeline plain = varied(40, random_steps());
  const CacheNeed need = need_of(plain);
  CacheBudget budget = budget_of(CacheMode::automatic, need.decoded + need.encoded / 2);
  CHECK(with_cache(plain, budget).dataset != plain.dataset);
  CHECK(budget.left == need.encoded / 2);
  CHECK(with_cache(plain, budget).dataset == plain.dataset);
  spec::Cache options;
  options.budget.bytes = 1000;
  CHECK(CacheBudget(options, 4).left == 250);
}

TEST_CASE("with_cache: images in memory are cached only if fixed transforms change them") {
  const Facts facts = MemoryDataset::facts(4, 2, {4, 4, 1});
  const auto memory =
      std::make_shared<MemoryDataset>(facts, image_memory(facts), std::vector<std::uint8_t>(4));
  for (const CacheMode mode : {CacheMode::automatic, CacheMode::encoded, CacheMode::decoded}) {
    CHECK(cached({memory, random_steps(), {}, {}}, mode).dataset == memory);
  }
  CHECK(cached({memory, fixed_then({}), {}, {}}, CacheMode::automatic).dataset != memory);
}

TEST_CASE("image cache: an unreadable image is an error with its name in every epoch") {
  for (const CacheMode mode : {CacheMode::none, CacheMode::encoded, CacheMode::decoded}) {
    for (const Steps& steps : {random_steps(), fixed_then({})}) {
      const auto source = std::make_shared<VariedDataset>(12);
      source->bad = {7};
      LoaderOptions options = cache_options(2);
      options.order = Order::sequential;
      Loader loader(cached({source, steps, {}, {}}, mode), options);
      for (int epoch = 0; epoch < 3; ++epoch) {
        loader.start_epoch(epoch);
        CHECK(loader.next() != nullptr);
        CHECK(failure_of([&] { loader.next(); }) ==
              fmt::format("9: epoch {}, batch 2: picture 7: the image is damaged", epoch + 1));
      }
    }
  }
}

TEST_CASE("image cache: memory does not grow over 50 epochs") {
  const SmallPages small_pages;
  for (const CacheMode mode : {CacheMode::none, CacheMode::encoded, CacheMode::decoded}) {
    Loader loader(cached(varied(400, fixed_then(random_steps())), mode), cache_options(2));
    const auto run = [&](std::int64_t epoch) {
      loader.start_epoch(epoch);
      while (loader.next() != nullptr) {
      }
    };
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) run(epoch);
    const std::int64_t before = resident_kib();
    for (std::int64_t epoch = 5; epoch < 50; ++epoch) run(epoch);
    CHECK(resident_kib() - before <= kMostKib);
  }
}
