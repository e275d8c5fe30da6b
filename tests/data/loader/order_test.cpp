#include "data/loader/order.hpp"

#include "base/hash.hpp"
#include "data/fakes.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <set>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

Permutation order_of(std::size_t count, std::uint64_t seed, std::int64_t epoch) {
  Permutation order(count);
  shuffle(order, seed, epoch);
  return order;
}

std::uint64_t hash_of(const Permutation& order) {
  return hash_bytes(std::as_bytes(std::span(order)));
}

}  // namespace

TEST_CASE("shuffle: an epoch has every sample once") {
  for (const std::size_t count : {1U, 2U, 3U, 17U, 1000U, 60'000U}) {
    Permutation order = order_of(count, 42, 3);
    std::sort(order.begin(), order.end());
    bool complete = true;
    for (std::size_t i = 0; i < count; ++i) complete = complete && order[i] == i;
    CHECK(complete);
  }
}

TEST_CASE("shuffle: the order depends on the epoch and the seed and is reproducible") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (std::int64_t epoch = 0; epoch < 8; ++epoch)
      seen.insert(hash_of(order_of(500, seed, epoch)));
  }
  CHECK(seen.size() == 64);
  CHECK(order_of(500, 5, 6) == order_of(500, 5, 6));
}

TEST_CASE("shuffle: the order of a seed and an epoch is the same in all versions") {
  CHECK(order_of(10, 0, 0) == Permutation{5, 1, 6, 9, 4, 3, 2, 0, 8, 7});
  CHECK(to_hex(hash_of(order_of(60'000, 42, 1))) == "13e29c5eed9d6617");
}

TEST_CASE("shuffle: every sample is equally likely at every position") {
  // There are 20,000 orders of 5: each (sample, place) is expected 4,000 times, and 6 standard
  // deviations are 340.
  int counts[5][5] = {};
  for (std::int64_t epoch = 0; epoch < 20'000; ++epoch) {
    const Permutation order = order_of(5, 9, epoch);
    for (std::size_t place = 0; place < 5; ++place) ++counts[order[place]][place];
  }
  for (const auto& row : counts) {
    for (const int count : row) CHECK(std::abs(count - 4000) < 340);
  }
}

TEST_CASE("BatchPlan: the batches of the ranks divide the global batch") {
  for (const std::int64_t samples : {1, 2, 7, 64, 97}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (const std::int64_t size : {1, 3, 16}) {
        std::set<std::int64_t> positions;
        for (int rank = 0; rank < ranks; ++rank) {
          LoaderOptions options;
          options.batch_size = size;
          options.shard = {rank, ranks};
          const BatchPlan plan(samples, options);
          REQUIRE(plan.batches() == (samples + size * ranks - 1) / (size * ranks));
          for (std::int64_t batch = 0; batch < plan.batches(); ++batch) {
            const Extent extent = plan.extent(batch);
            REQUIRE(extent.rows >= 1);
            REQUIRE(extent.rows <= size);
            REQUIRE(extent.rows - extent.valid <= 1);
            for (std::int64_t row = 0; row < extent.valid; ++row) {
              const std::int64_t position = extent.first + row * extent.step;
              REQUIRE(position % ranks == rank);
              REQUIRE(position / (size * ranks) == batch);
              positions.insert(position);
            }
          }
        }
        CHECK(std::ssize(positions) == samples);
      }
    }
  }
}

TEST_CASE("BatchPlan: drop_last drops the incomplete batch, and no batch left is an error") {
  LoaderOptions options;
  options.batch_size = 10;
  options.last_batch = LastBatch::drop;
  CHECK(BatchPlan(39, options).batches() == 3);
  CHECK(BatchPlan(40, options).batches() == 4);
  const std::string failure = failure_of([&] { BatchPlan(9, options); });
  CHECK_THAT(failure,
             Contains("2: a batch of 10 samples is larger than the data set (9 samples), and "));
  CHECK_THAT(failure, Contains("lower loader.batch_size to at most 9"));
}

TEST_CASE("BatchPlan: a limit is a number or a fraction of the batches") {
  LoaderOptions options;
  options.batch_size = 10;
  options.limit_batches = 3;
  CHECK(BatchPlan(100, options).batches() == 3);
  options.limit_batches.reset();
  options.limit_fraction = 0.25;
  CHECK(BatchPlan(100, options).batches() == 2);
  options.limit_fraction = 0.001;
  CHECK(BatchPlan(100, options).batches() == 1);
}
