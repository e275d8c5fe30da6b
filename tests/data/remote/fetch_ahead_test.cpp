#include "data/remote/fetch_ahead.hpp"

#include "data/cache/cached_dataset.hpp"
#include "data/core/run_control.hpp"
#include "data/remote/fake_store.hpp"
#include "data/remote/local_tier.hpp"
#include "data/remote/object_store.hpp"
#include "data/remote/transfers.hpp"
#include "data/sources.hpp"
#include "data/transform_of.hpp"
#include "spec/options/dataset.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <new>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
using Catch::Matchers::Contains;

namespace {

/// Mounts a fake bucket with a folder of objects.
class MountedBucket {
 public:
  /// The tier can hold `capacity` objects, each with 4096 bytes and a block of checksums.
  MountedBucket(std::int64_t count, std::uint64_t capacity) {
    fake_.budget.bytes = capacity * 2 * 4096;
    for (std::int64_t i = 0; i < count; ++i)
      fake_.store->objects[fmt::format("s3://bucket/set/c/{}.jpg", 1000 + i)] = {
          varied_bytes(4096, static_cast<unsigned>(i)), "e"};
    mount_remote(fake_.open());
    spec::dataset::ImageFolder options;
    options.root = "s3://bucket/set";
    dataset_ = build("image_folder", options);
  }
  ~MountedBucket() { mount_remote(std::shared_ptr<LocalTier>()); }
  MountedBucket(const MountedBucket&) = delete;
  MountedBucket& operator=(const MountedBucket&) = delete;

  FakeStore& store() { return *fake_.store; }
  [[nodiscard]] const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  [[nodiscard]] bool wait_for_reads(int count) const {
    for (int wait = 0; wait < 6000 && fake_.store->reads < count; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return fake_.store->reads >= count;
  }

 private:
  CacheHome cache_;
  FakeTier fake_;
  std::shared_ptr<const Dataset> dataset_;
};

Pipeline center_cropped(std::shared_ptr<const Dataset> dataset) {
  return {std::move(dataset),
          {transform_of("center_crop", spec::transform::CenterCrop{{{8}}})},
          {},
          {}};
}

LoaderOptions one_by_one() {
  LoaderOptions options;
  options.batch_size = 1;
  options.order = Order::sequential;
  return options;
}

/// Serves a list of images, but fails for each image with a transient error.
class ListClient final : public HttpClient {
 public:
  explicit ListClient(std::atomic<int>& requests) : requests_(requests) {}
  HttpResponse perform(const HttpRequest& request) override {
    if (request.url.ends_with("list.csv"))
      return {200, {{"content-length", std::to_string(list_.size())}}, list_, "", false};
    ++requests_;
    return {503, {}, "", "", false};
  }

 private:
  std::string list_ = "path,label\n1.jpg,0\n2.jpg,0\n3.jpg,0\n4.jpg,0\n";
  std::atomic<int>& requests_;
};

/// Mounts a store whose images fail. Pauses before a retry are longer than a test may take.
class FailingImages {
 public:
  FailingImages() {
    const auto store = std::shared_ptr<ObjectStore>(http_store(std::make_shared<Transfers>(
        std::make_unique<ListClient>(requests),
        TransferOptions{.retries = 1000, .sleep = [](double) { TransferOptions().sleep(600); }})));
    mount_remote(std::make_shared<LocalTier>(folder_.path(),
                                             spec::Budget{.bytes = std::uint64_t{1} << 30},
                                             LocalTier::Stores{{"http", store}}));
  }
  ~FailingImages() {
    watch_stop_signal(nullptr);
    mount_remote(std::shared_ptr<LocalTier>());
  }
  FailingImages(const FailingImages&) = delete;
  FailingImages& operator=(const FailingImages&) = delete;

  [[nodiscard]] static std::shared_ptr<const Dataset> dataset() {
    spec::dataset::ImageList options;
    options.path = "http://host/list.csv";
    return build("image_list", options);
  }
  [[nodiscard]] bool wait_for_requests(int count) const {
    for (int wait = 0; wait < 6000 && requests < count; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return requests >= count;
  }

  std::atomic<int> requests = 0;

 private:
  CacheHome cache_;
  TempFolder folder_;
};

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Fails each download because memory is short.
class OutOfMemory final : public CountingDataset, public Fetchable {
 public:
  OutOfMemory() : CountingDataset(10) {}
  [[nodiscard]] const Fetchable* fetchable() const override { return this; }
  std::uint64_t fetch(std::int64_t) const override {
    ++fetches;
    throw std::bad_alloc();
  }
  [[nodiscard]] std::string object(std::int64_t) const override { return "http://host/x"; }

  mutable std::atomic<int> fetches = 0;
};

/// Blocks the first download until it is released.
class BlockedDownload final : public CountingDataset, public Fetchable {
 public:
  BlockedDownload() : CountingDataset(40) {}
  [[nodiscard]] const Fetchable* fetchable() const override { return this; }
  std::uint64_t fetch(std::int64_t) const override {
    const int number = ++fetches;
    most_at_once = std::max(most_at_once.load(), ++at_once);
    // The first download waits until it is released, the second one for a concurrent download.
    for (int wait = 0; wait < 6000; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (number == 1 ? released.load() : number > 2 || most_at_once > 1) break;
    }
    --at_once;
    return 4096;
  }
  [[nodiscard]] std::string object(std::int64_t) const override { return "http://host/x"; }
  [[nodiscard]] bool wait_for_fetches(int count) const {
    for (int wait = 0; wait < 6000 && fetches < count; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return fetches >= count;
  }

  mutable std::atomic<int> fetches = 0;
  mutable std::atomic<int> at_once = 0;
  mutable std::atomic<int> most_at_once = 0;
  std::atomic<bool> released = false;
};

}  // namespace

TEST_CASE(
    "FetchAhead: the first sample provides the size estimate, then several are downloaded at "
    "once") {
  const auto dataset = std::make_shared<BlockedDownload>();
  FetchAhead ahead(dataset, 1);
  ahead.begin({.count = 40});
  CHECK(dataset->wait_for_fetches(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(dataset->fetches == 1);
  ahead.used(1);  // the first download is still in flight
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(dataset->fetches == 1);
  dataset->released = true;
  CHECK(dataset->wait_for_fetches(40));
  CHECK(dataset->most_at_once > 1);
}

TEST_CASE("FetchAhead: the destructor ends retries of failing downloads") {
  const FailingImages images;
  const auto dataset = images.dataset();
  auto ahead = std::make_unique<FetchAhead>(dataset, 1);
  ahead->begin({.count = 4});
  REQUIRE(images.wait_for_requests(1));
  CHECK(seconds_of([&] { ahead.reset(); }) < 60);
}

TEST_CASE("remote data: a loader can be destroyed while its threads wait for the network") {
  const FailingImages images;
  LoaderOptions options = one_by_one();
  options.num_workers = 2;
  auto loader = std::make_unique<Loader>(center_cropped(images.dataset()), options);
  loader->start_epoch(0);
  REQUIRE(images.wait_for_requests(1));
  CHECK(seconds_of([&] { loader.reset(); }) < 60);
}

TEST_CASE("remote data: a stop signal ends the wait for the network and is reported as a stop") {
  const int signal = GENERATE(SIGTERM, SIGINT);
  const int workers = GENERATE(0, 2);
  const FailingImages images;
  volatile int received = 0;
  watch_stop_signal(&received);
  LoaderOptions options = one_by_one();
  options.num_workers = workers;
  Loader loader(center_cropped(images.dataset()), options);
  loader.start_epoch(0);
  std::jthread sender([&] {
    (void)images.wait_for_requests(1);
    received = signal;
  });
  const std::string failure = failure_of([&] { (void)loader.next(); });
  CHECK_THAT(failure, StartsWith(signal == SIGINT ? "130: " : "143: "));
  CHECK_THAT(failure, Contains("stopped while data was read"));
}

TEST_CASE("FetchAhead: cached images are not downloaded again") {
  MountedBucket bucket(60, 12);
  const auto cached = std::make_shared<CachedDataset>(bucket.dataset(), 60 * 4096);
  cached->load();
  CHECK(bucket.store().reads <= 60 + 12);
  REQUIRE(cached->fetchable() != nullptr);
  const int before = bucket.store().reads;
  FetchAhead ahead(cached, 1);
  ahead.begin({.count = 60});
  std::vector<std::byte> scratch;
  for (std::int64_t i = 0; i < 60; ++i) {
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    (void)cached->read(i, scratch);
    ahead.used(1);
  }
  CHECK(bucket.store().reads == before);
}

TEST_CASE("FetchAhead: images that do not fit the cache are downloaded ahead") {
  MountedBucket bucket(60, 400);
  const auto cached = std::make_shared<CachedDataset>(bucket.dataset(), 20 * 4096);
  std::vector<std::byte> scratch;
  for (std::int64_t i = 0; i < 30; ++i) (void)cached->read(i, scratch);
  CHECK(bucket.store().reads == 30);
  FetchAhead ahead(cached, 1);
  ahead.begin({.count = 60});
  CHECK(bucket.wait_for_reads(60));
}

TEST_CASE("FetchAhead: failed batches count as used, so that later images are downloaded") {
  MountedBucket bucket(60, 40);  // ten of them are downloaded ahead
  Loader loader(center_cropped(bucket.dataset()), one_by_one());
  loader.start_epoch(0);
  for (int i = 0; i < 30; ++i) CHECK_THROWS_AS(loader.next(), Error);
  CHECK(bucket.wait_for_reads(38));
}

TEST_CASE("FetchAhead: an allocation failure does not end the downloads") {
  const auto dataset = std::make_shared<OutOfMemory>();
  FetchAhead ahead(dataset, 1);
  ahead.begin({.count = 10});
  for (int wait = 0; wait < 6000 && dataset->fetches < 10; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(dataset->fetches == 10);
}

TEST_CASE("remote data: an invalid image is reported with its local copy") {
  MountedBucket bucket(1, 100);
  for (const bool kept : {false, true}) {
    const auto dataset =
        kept ? std::make_shared<const CachedDataset>(bucket.dataset(), 4096) : bucket.dataset();
    Loader loader(center_cropped(dataset), one_by_one());
    loader.start_epoch(0);
    const std::string failure = failure_of([&] { (void)loader.next(); });
    CHECK_THAT(failure, StartsWith("9: ") &&
                            Contains("the local copy of s3://bucket/set/c/1000.jpg") &&
                            Contains("1000.jpg.data") && Contains("delete the local copy"));
  }
  const Pipeline pipeline = center_cropped(bucket.dataset());
  std::vector<std::byte> scratch;
  CHECK_THAT(failure_of([&] { (void)Prefix(pipeline).make(0, scratch); }),
             Contains("the local copy of s3://bucket/set/c/1000.jpg"));
}

TEST_CASE("FetchAhead: memory() counts a block for each transfer, and nothing for local data") {
  MountedBucket bucket(1, 100);
  const std::uint64_t least = FetchAhead::memory(*bucket.dataset(), 1);
  CHECK(least >= 2 * CachedObject::kBlock);
  CHECK(FetchAhead::memory(*bucket.dataset(), 3) == least + 2 * CachedObject::kBlock);
  CHECK(FetchAhead::memory(CountingDataset(4), 3) == 0);
}
