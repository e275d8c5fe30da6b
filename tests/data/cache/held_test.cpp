#include "data/cache/device_cache.hpp"
#include "data/cache/image_cache.hpp"
#include "data/core/registry.hpp"
#include "data/fakes.hpp"
#include "data/host_images.hpp"
#include "data/loader/loading_plan.hpp"
#include "data/loader/measurements.hpp"
#include "data/transform_of.hpp"
#include "data/varied.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

#include <set>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
using spec::CacheMode;

namespace {

/// Returns images of several sizes, which are cropped to 5x5 and then transformed at random.
Pipeline varied(std::int64_t size) {
  spec::transform::RandomCrop crop;
  crop.size = {{5}};
  crop.padding = {{2}};
  crop.fill = {{9}};
  spec::transform::RandomErasing erasing;
  erasing.value = {{70}};
  Pipeline pipeline;
  pipeline.dataset = std::make_shared<VariedDataset>(size);
  pipeline.transforms = {
      std::make_shared<Corner>(5), transform_of("random_crop", crop),
      transform_of("random_horizontal_flip", spec::transform::RandomHorizontalFlip{}),
      transform_of("random_erasing", erasing)};
  pipeline.names = {"corner", "random_crop", "random_horizontal_flip", "random_erasing"};
  return pipeline;
}

VariedDataset& mutable_source(const Pipeline& pipeline) {
  return const_cast<VariedDataset&>(dynamic_cast<const VariedDataset&>(*pipeline.dataset));
}

CacheBudget held_budget(CacheMode mode, const ImageDevice* device, std::uint64_t bytes = 1 << 20) {
  CacheBudget budget;
  budget.mode = mode;
  budget.left = bytes;
  budget.device = device;
  return budget;
}

Pipeline held(const Pipeline& pipeline) {
  const HostDevice device;
  CacheBudget budget = held_budget(CacheMode::device, &device);
  return with_cache(pipeline, budget);
}

LoaderOptions held_options(int workers, Shard shard = {}) {
  LoaderOptions options;
  options.batch_size = 6;
  options.num_workers = workers;
  options.seed = 5;
  options.shard = shard;
  return options;
}

/// Returns the rest of an epoch, with plans rendered to pixels.
std::vector<Copy> epoch_of(Loader& loader, std::int64_t epoch, std::int64_t first_batch = 0) {
  std::vector<Copy> batches;
  loader.start_epoch(epoch, first_batch);
  while (const Batch* batch = loader.next()) {
    batches.emplace_back(*batch);
    if (loader.held()) batches.back().fields[0] = pixels_of(*batch, loader);
  }
  return batches;
}

}  // namespace

TEST_CASE("device cache: batches have the same pixels as without a cache") {
  const Pipeline plain = varied(41);
  const Pipeline on_device = held(plain);
  for (const int workers : {0, 1, 2}) {
    for (const int ranks : {1, 2, 3}) {
      for (int rank = 0; rank < ranks; ++rank) {
        Loader expected(plain, held_options(0, {rank, ranks}));
        Loader loader(on_device, held_options(workers, {rank, ranks}));
        REQUIRE(loader.held());
        REQUIRE(loader.layout() == expected.layout());
        for (const int epoch : {0, 1, 7})
          REQUIRE(epoch_of(loader, epoch) == epoch_of(expected, epoch));
      }
    }
  }
}

TEST_CASE("random_horizontal_flip: alternate mirrors every image in every other epoch") {
  spec::transform::RandomCrop crop;  // of the whole image
  crop.size = {{5}};
  spec::transform::RandomHorizontalFlip flip;
  flip.alternate = true;
  const auto flipping = [&](bool reflects) {
    Pipeline pipeline = varied(41);
    if (reflects) {
      crop.padding = {{2}};
      crop.padding_mode = spec::transform::PaddingMode::reflect;
    }
    pipeline.transforms = {std::make_shared<Corner>(5), transform_of("random_crop", crop),
                           transform_of("random_horizontal_flip", flip)};
    return pipeline;
  };
  const auto images_of = [](Loader& loader, std::int64_t epoch, bool mirrored) {
    std::multiset<std::vector<std::byte>> images;
    for (const Copy& batch : epoch_of(loader, epoch)) {
      const std::vector<std::byte>& bytes = batch.fields[0];
      for (std::size_t first = 0; first < bytes.size(); first += 75) {
        std::vector<std::byte> image(75);
        for (std::size_t i = 0; i < 75; ++i) {
          const std::size_t x = i / 3 % 5;
          image[i] = bytes[first + (mirrored ? i / 15 * 15 + (4 - x) * 3 + i % 3 : i)];
        }
        images.insert(std::move(image));
      }
    }
    return images;
  };
  const Pipeline plain = flipping(false);
  Loader loader(plain, held_options(0));
  const auto first = images_of(loader, 0, false);
  CHECK(first.size() == 41);
  CHECK(images_of(loader, 1, false) != first);
  CHECK(images_of(loader, 1, true) == first);
  CHECK(images_of(loader, 2, false) == first);
  CHECK(images_of(loader, 7, true) == first);
  LoaderOptions other = held_options(0);
  other.seed = 6;
  Loader reseeded(plain, other);
  CHECK(images_of(reseeded, 0, false) != first);  // some images flip, and the seed decides which

  const Pipeline reflecting = flipping(true);
  const Pipeline on_device = held(reflecting);
  for (const int workers : {0, 2}) {
    for (const int rank : {0, 1}) {
      Loader expected(reflecting, held_options(0, {rank, 2}));
      Loader found(on_device, held_options(workers, {rank, 2}));
      for (const std::int64_t epoch : {0, 1, 4})
        for (const std::int64_t batch : {0, 2})
          REQUIRE(epoch_of(found, epoch, batch) == epoch_of(expected, epoch, batch));
    }
  }
  flip.p = 0.4;
  CHECK_THROWS_WITH(transform_of("random_horizontal_flip", flip),
                    Contains("alternate: true requires p 0.5, got 0.4"));
}

TEST_CASE("device cache: an epoch resumes at any batch") {
  const Pipeline plain = varied(41);
  const Pipeline on_device = held(plain);
  for (const int workers : {0, 2}) {
    Loader loader(on_device, held_options(workers));
    Loader expected(plain, held_options(0));
    for (std::int64_t first = 0; first <= expected.batches_per_epoch(); ++first)
      REQUIRE(epoch_of(loader, 3, first) == epoch_of(expected, 3, first));
  }
}

TEST_CASE("hold_images: reads each image once, before the first batch") {
  const Pipeline plain = varied(40);
  std::vector<std::int64_t> progress;
  const HostDevice device;
  const Pipeline on_device = hold_images(plain, device, [&](std::int64_t done, std::int64_t total) {
    CHECK(total == 40);
    progress.push_back(done);
  });
  CHECK(mutable_source(plain).reads == 40);
  CHECK(progress.front() == 0);
  CHECK(progress.back() == 40);
  CHECK(std::is_sorted(progress.begin(), progress.end()));
  Loader loader(on_device, held_options(2));
  for (int epoch = 0; epoch < 3; ++epoch) read_epoch(loader, epoch);
  CHECK(mutable_source(plain).reads == 40);
  CHECK(loader.memory().size() < std::size_t{4} * 6 * 25 * 3);
}

TEST_CASE("device cache: a damaged image fails or is skipped as without a cache") {
  Pipeline plain = varied(41);
  mutable_source(plain).bad = {4, 17};
  const Pipeline on_device = held(plain);
  LoaderOptions options = held_options(0);
  options.on_error = OnError::skip;
  options.max_skipped = 2;
  for (const int workers : {0, 2}) {
    options.num_workers = workers;
    Loader expected(plain, options);
    Loader loader(on_device, options);
    REQUIRE(epoch_of(loader, 0) == epoch_of(expected, 0));
    REQUIRE(loader.skipped().size() == 2);
    CHECK(loader.skipped()[0].name == "picture 4");
    CHECK(loader.skipped()[0].reason == expected.skipped()[0].reason);
  }
  Loader strict(on_device, held_options(0));
  CHECK_THAT(failure_of([&] { epoch_of(strict, 0); }),
             Contains("9: ") && Contains("the image is damaged") && Contains("picture"));
}

TEST_CASE("hold_images: eight threads write the same bytes as one thread") {
  Pipeline plain = varied(200);
  mutable_source(plain).bad = {4, 17, 199};
  const HostDevice device;
  const Pipeline one = hold_images(plain, device);
  std::vector<std::int64_t> progress;
  const Pipeline many = hold_images(
      plain, device, [&](std::int64_t done, std::int64_t) { progress.push_back(done); }, 8);
  CHECK(std::is_sorted(progress.begin(), progress.end()));
  CHECK(progress.back() == 200);
  CHECK(many.held->sound == one.held->sound);
  const std::size_t bytes = 200 * one.held->shape.bytes();
  CHECK(std::memcmp(many.held->memory->address(), one.held->memory->address(), bytes) == 0);
}

TEST_CASE("memory_plan: mode=device counts the images on the device and plans in the ring") {
  spec::Cache cache;
  cache.mode = spec::CacheMode::device;
  CacheBudget budget = CacheBudget::of_plan(cache, 1, 1 << 30);
  const LoaderOptions options = held_options(0);
  const MemoryPlan plan = memory_plan(varied(40), options, budget);
  CHECK(plan.cache.tier == CacheTier::device);
  const Pipeline on_device = held(varied(40));
  CHECK(plan.cache.device_bytes() == 40 * on_device.held->shape.bytes());
  CHECK(plan.cache.host_bytes() == 0);
  CHECK(plan.ring() == Loader(on_device, options).memory().size());
}

TEST_CASE("device cache: an image that becomes readable after startup is an error") {
  Pipeline plain = varied(41);
  mutable_source(plain).bad = {4};
  const Pipeline on_device = held(plain);
  mutable_source(plain).bad.clear();
  Loader loader(on_device, held_options(0));
  CHECK_THAT(failure_of([&] { epoch_of(loader, 0); }),
             Contains("9: ") && Contains("picture 4") && Contains("run the command again"));
}

TEST_CASE("choose_cache: auto selects the device if half of its free memory is enough") {
  const Pipeline plain = varied(40);
  const std::uint64_t need = std::uint64_t{40} * 25 * 3;
  const auto tier_with = [&](std::uint64_t room, CacheMode mode = CacheMode::automatic) {
    const HostDevice device(room);
    return choose_cache(cache_need(plain, probe_image_sizes(plain)), held_budget(mode, &device))
        .tier;
  };
  CHECK(tier_with(2 * need) == CacheTier::device);
  CHECK(tier_with(2 * need - 2) == CacheTier::decoded);
  CHECK(tier_with(2 * need, CacheMode::decoded) == CacheTier::decoded);
  CHECK(tier_with(need * 10 / 9 + 20, CacheMode::device) == CacheTier::device);
  CHECK_THAT(failure_of([&] { tier_with(need, CacheMode::device); }),
             Contains("11: dataset.cache.mode=device: the images need 2.9 KiB"));
}

TEST_CASE("with_cache: images on a device do not reduce the budget of the host") {
  const HostDevice device;
  CacheBudget budget = held_budget(CacheMode::automatic, &device, 10);
  CHECK(with_cache(varied(40), budget).held);
  CHECK(budget.left == 10);
}

TEST_CASE("with_cache: mode=device without a device is an error in a run and auto elsewhere") {
  spec::Cache cache;
  cache.mode = CacheMode::device;
  CacheBudget run = CacheBudget::of_run(cache, 1, nullptr);
  CHECK_THAT(
      failure_of([&] { with_cache(varied(9), run); }),
      Contains("2: dataset.cache.mode=device") && Contains("set dataset.cache.mode to decoded"));
  CacheBudget verb(cache, 1);
  const Pipeline plain = varied(9);
  CHECK(digest_epochs(with_cache(plain, verb), held_options(0), 2).epochs ==
        digest_epochs(plain, held_options(0), 2).epochs);
}

TEST_CASE("with_cache: transforms without a plan are an error for mode=device but not for auto") {
  Pipeline pipeline = varied(9);
  pipeline.transforms.push_back(std::make_shared<Corner>(4));
  pipeline.names.push_back("corner");
  const HostDevice device;
  CacheBudget named = held_budget(CacheMode::device, &device);
  CHECK_THAT(failure_of([&] { with_cache(pipeline, named); }),
             Contains("2: dataset.cache.mode=device: transform 'corner' computes new pixels"));
  CacheBudget automatic = held_budget(CacheMode::automatic, &device);
  CHECK_FALSE(with_cache(pipeline, automatic).held);
}
