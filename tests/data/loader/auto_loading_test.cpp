#include "data/fakes.hpp"
#include "data/loader/loading_plan.hpp"
#include "data/loader/measurements.hpp"
#include "support/catch.hpp"
#include "support/manual_clock.hpp"

#include <set>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

/// A data set whose samples take time on a simulated clock.
struct Bench {
  ManualClock clock;
  int made = 0;
  std::shared_ptr<CountingDataset> dataset = std::make_shared<CountingDataset>(1000);
  LoaderOptions options{.batch_size = 10};

  explicit Bench(std::function<double(int made)> seconds) {
    dataset->before = [this, seconds](std::int64_t) { clock.advance(seconds(made++)); };
  }
  [[nodiscard]] Pipeline pipeline() const { return {dataset, {}, {}}; }
  std::optional<BatchCost> cost() { return time_batches(pipeline(), options, clock); }
  LoadingChoice choice(double step_s, int cores, const spec::Loader& requested = {}) {
    return decide_loading(requested, pipeline(), options,
                          {.cores = cores, .training_uses_cores = true}, step_s, clock);
  }
};

}  // namespace

TEST_CASE("time_batches: takes the median of the tiles and stops after a quarter of a second") {
  Bench even([](int) { return 0.002; });
  const auto cost = even.cost();
  REQUIRE(cost.has_value());
  CHECK(cost->seconds == Approx(0.02));
  CHECK(cost->spread == Approx(1));
  CHECK(even.made == 130);  // the first batch that ends after a quarter of a second
  Bench warming([](int made) { return made < 10 ? 0.02 : 0.001; });
  CHECK(warming.cost()->seconds == Approx(0.01));
  Bench long_ones([](int) { return 10.0; });
  CHECK(long_ones.cost()->seconds == Approx(100));
  CHECK(long_ones.made == 10);  // one tile is sufficient
}

TEST_CASE("time_batches: slow batches increase the spread, less with more tiles per batch") {
  const auto slow = [](int made) { return made / 10 % 5 == 4 ? 0.005 : 0.001; };
  Bench whole(slow);
  CHECK(whole.cost()->spread > 2);
  CHECK(whole.cost()->seconds == Approx(0.01));
  Bench split(slow);
  split.options.tile_rows = 1;
  CHECK(split.cost()->spread > 1.3);
  CHECK(split.cost()->spread < whole.cost()->spread);
  CHECK(split.cost()->seconds == Approx(0.01));
}

TEST_CASE("time_batches: partial batches and a short epoch are scaled by their rows") {
  Bench bench([](int) { return 0.001; });
  bench.dataset = std::make_shared<CountingDataset>(13);
  bench.dataset->before = [&](std::int64_t) { bench.clock.advance(0.001); };
  bench.options.tile_rows = 4;
  CHECK(bench.cost()->seconds == Approx(0.01));
}

TEST_CASE("time_batches: starts at the given batch and returns the next one") {
  Bench bench([](int) { return 0.002; });  // 13 batches in a quarter of a second
  std::set<std::int64_t> loaded;
  const auto advance = bench.dataset->before;
  bench.dataset->before = [&](std::int64_t index) {
    loaded.insert(index);
    advance(index);
  };
  const auto next_after = [&](std::int64_t first_batch) {
    return time_batches(bench.pipeline(), bench.options, bench.clock, first_batch)->next_batch;
  };
  CHECK(next_after(0) == 13);
  CHECK(next_after(13) == 26);
  CHECK(loaded.size() == 260);
  const LoadingChoice repeated =
      decide_loading({}, bench.pipeline(), bench.options, {.cores = 8}, 0.01, bench.clock, 26);
  CHECK(repeated.next_batch == 39);
  CHECK(loaded.size() == 390);
}

TEST_CASE("time_batches: the first batches follow the last one, but none is loaded twice") {
  Bench warming([](int made) { return made < 10 ? 0.02 : 0.001; });
  const auto at_end = time_batches(warming.pipeline(), warming.options, warming.clock, 99);
  CHECK(at_end->seconds == Approx(0.01));
  CHECK(at_end->next_batch > 1);
  Bench fast([](int) { return 1e-6; });
  fast.options.batch_size = 100;
  CHECK(time_batches(fast.pipeline(), fast.options, fast.clock, 4)->next_batch == 4);
  CHECK(fast.made == 1000);
}

TEST_CASE("time_batches: the probe ends at an unreadable sample") {
  Bench bench([](int) { return 0.001; });
  bench.dataset->before = [&](std::int64_t) {
    bench.clock.advance(0.001);
    if (++bench.made > 25) throw Error(ErrorKind::data, "it is gone");
  };
  CHECK(bench.cost()->seconds == Approx(0.01));
  CHECK_FALSE(bench.cost().has_value());
  CHECK(bench.choice(0.01, 8).num_workers == 0);
  CHECK(bench.choice(0.01, 8).why ==
        "the loading time is unknown, because no sample could be loaded");
}

TEST_CASE("decide_loading: only options set to auto are probed") {
  Bench bench([](int) { return 0.002; });
  CHECK(bench.choice(0.01, 8).num_workers == 3);
  CHECK(bench.choice(0.01, 2).num_workers == 1);  // plus the consumer
  bench.options.tile_rows = 5;
  CHECK(bench.choice(0.01, 2).num_workers == 2);
  CHECK(bench.choice(10, 8).num_workers == 0);
  bench.made = 0;
  spec::Loader requested;
  requested.num_workers.value = 5;
  requested.prefetch_factor.value = 3;
  const LoadingChoice asked = bench.choice(0.01, 8, requested);
  CHECK(asked.num_workers == 5);
  CHECK(asked.prefetch_factor == 3);
  CHECK(asked.why == "configured");
  requested.num_workers.value = 0;
  requested.prefetch_factor.value.reset();
  CHECK(bench.choice(0.01, 8, requested).num_workers == 0);
  CHECK(bench.made == 0);
  requested.num_workers.value = 5;
  CHECK(bench.choice(0, 8, requested).num_workers == 5);
  CHECK(bench.made > 0);
}

TEST_CASE("decide_loading: the memory budget of the ring limits the batches ahead") {
  Bench bench([](int made) { return made / 10 % 5 == 4 ? 0.05 : 0.001; });
  CHECK(bench.choice(0.001, 4).prefetch_factor == 4);
  const std::uint64_t slot = 192 + 128;  // images and labels, each aligned to 64 bytes
  bench.options.memory_budget = 8 * slot;
  CHECK(bench.choice(0.001, 4).prefetch_factor <= 2);
}

TEST_CASE("with_choice: changes threads and priority but not the batches") {
  Bench bench([](int) { return 0.002; });
  const LoadingChoice choice = bench.choice(0.01, 8);
  const LoaderOptions chosen = with_choice(bench.options, choice, {8, true});
  CHECK(chosen.num_workers == 3);
  CHECK(chosen.priority == Priority::below_trainer);
  CHECK(with_choice(bench.options, choice, {8, false}).priority == Priority::normal);
  CHECK(with_choice(bench.options, choice, {3, false}).priority == Priority::below_trainer);
  const Pipeline pipeline = counting(1000);
  CHECK(digest_epochs(pipeline, chosen, 2).epochs ==
        digest_epochs(pipeline, bench.options, 2).epochs);
}
