#include "data/loader/loading_plan.hpp"

#include "support/catch.hpp"

#include <limits>

using namespace trainctl;
using namespace trainctl::data;

namespace {

constexpr std::uint64_t kSlot = 1000;

LoadingLimits cpu(int cores) { return {cores, true, 1'000'000}; }
LoadingLimits gpu(int cores) { return {cores, false, 1'000'000}; }

LoadingChoice choose(const LoadingFigures& figures, const LoadingLimits& limits,
                     const spec::Loader& requested = {}) {
  return choose_loading(requested, figures, limits, kSlot);
}

}  // namespace

TEST_CASE("choose_loading: enough threads for the step time, limited by the cores") {
  struct Row {
    double batch_s;
    double step_s;
    LoadingLimits limits;
    int workers;
  };
  const std::vector<Row> rows{
      {6e-6, 540e-6, cpu(2), 0},    // MNIST and a small network: gathering is fast
      {6e-6, 1e-6, cpu(16), 0},     // faster to make than to hand over, for any step
      {40e-6, 0, cpu(16), 0},       // the same without training
      {1e-3, 0.1, cpu(16), 0},      // 1 % of the time
      {5e-3, 0.1, gpu(16), 0},      // 4.8 %
      {6e-3, 0.1, gpu(16), 1},      // 5.7 %
      {0.071, 0.020, cpu(2), 2},    // JPEGs and a small network need 4.08 workers
      {0.071, 0.020, cpu(4), 4},    // limited by the cores
      {0.071, 0.020, cpu(8), 5},    // enough cores
      {0.071, 0.020, gpu(8), 5},    // enough cores
      {0.071, 0.020, gpu(4), 3},    // one core launches kernels
      {0.071, 0.020, gpu(1), 1},    // one worker even on a single core
      {0.071, 0.020, cpu(1), 1},    // one worker even on a single core
      {0.1, 0.115, cpu(16), 1},     // exactly 1.15 times as fast as needed
      {0.1, 0.1149, cpu(16), 2},    // slightly too slow with one worker
      {0.071, 0, cpu(4), 4},        // a consumer that does not train
      {1e9, 1e-9, cpu(1000), 256},  // the limit in the experiment file
  };
  for (const Row& row : rows) {
    CAPTURE(row.batch_s, row.step_s, row.limits.cores, row.limits.training_uses_cores);
    const LoadingChoice choice = choose({row.batch_s, 1, row.step_s}, row.limits);
    CHECK(choice.num_workers == row.workers);
    CHECK(choice.num_workers <= most_auto_workers(row.limits));
  }
}

TEST_CASE("choose_loading: a consumer that makes batches keeps a core") {
  LoadingLimits limits = cpu(4);
  limits.consumer_helps = true;
  CHECK(choose({0.071, 1, 0.02}, limits).num_workers == 3);
  limits.cores = 1;
  CHECK(choose({0.071, 1, 0.02}, limits).num_workers == 1);
}

TEST_CASE("choose_loading: no threads if the ring has memory for only one batch") {
  const LoadingLimits one_batch{8, true, 2 * kSlot - 1};
  CHECK(choose({0.071, 1, 0.02}, one_batch).num_workers == 0);
  CHECK_THAT(choose({0.071, 1, 0.02}, one_batch).why,
             EndsWith("workers need memory for two batches, but there is memory for only one"));
  CHECK(choose({0.071, 1, 0.02}, {8, true, 2 * kSlot}).num_workers == 5);
}

TEST_CASE("auto_workers_by_step: choose_loading agrees on both sides of each bound") {
  for (const LoadingLimits& limits : {cpu(1), cpu(2), gpu(5), cpu(16)}) {
    const auto by_step = auto_workers_by_step(0.071, limits, kSlot);
    REQUIRE(static_cast<int>(by_step.size()) == most_auto_workers(limits) + 1);
    CHECK(by_step.back().least_step_s == 0);
    for (std::size_t i = 0; i + 1 < by_step.size(); ++i) {
      CAPTURE(limits.cores, i);
      const double bound = by_step[i].least_step_s;
      CHECK(choose({0.071, 1, bound * 1.001}, limits).num_workers == by_step[i].num_workers);
      CHECK(choose({0.071, 1, bound * 0.999}, limits).num_workers == by_step[i + 1].num_workers);
    }
  }
  CHECK(auto_workers_by_step(6e-6, cpu(16), kSlot).size() == 1);
  CHECK(auto_workers_by_step(0.071, {8, true, kSlot}, kSlot).size() == 1);
}

TEST_CASE("choose_loading: batches ahead depend on the spread and the memory of the ring") {
  const auto ahead = [](double spread, std::uint64_t ring_bytes) {
    return choose({0.071, spread, 0.02}, {4, true, ring_bytes}).prefetch_factor;
  };
  CHECK(ahead(1, 100 * kSlot) == 2);
  CHECK(ahead(2, 100 * kSlot) == 2);
  CHECK(ahead(2.1, 100 * kSlot) == 3);
  CHECK(ahead(50, 100 * kSlot) == 4);
  CHECK(ahead(std::numeric_limits<double>::infinity(), 100 * kSlot) == 4);
  CHECK(ahead(50, 15 * kSlot) == 3);
  CHECK(ahead(50, 8 * kSlot) == 2);
  CHECK(ahead(50, 7 * kSlot) == 1);
  CHECK(ahead(50, 2 * kSlot) == 1);
}

TEST_CASE("choose_loading: only options set to auto are chosen") {
  spec::Loader requested;
  requested.num_workers.value = 7;
  const LoadingChoice threads = choose({0.071, 3.5, 0}, cpu(2), requested);
  CHECK(threads.num_workers == 7);
  CHECK(threads.prefetch_factor == 4);
  requested.num_workers.value.reset();
  requested.prefetch_factor.value = 9;
  const LoadingChoice ahead = choose({0.071, 3.5, 0.02}, {2, true, 2 * kSlot}, requested);
  CHECK(ahead.num_workers == 2);
  CHECK(ahead.prefetch_factor == 9);
}

TEST_CASE("choose_loading: the reason gives the measured times") {
  CHECK(choose({0.071, 1, 0.02}, cpu(2)).why ==
        "probe: a batch takes 71.0 ms to load, a step 20.0 ms; 5 workers would keep up with the "
        "steps, but only 2 cores are free");
  CHECK(choose({0.071, 1, 0.02}, gpu(8)).why ==
        "probe: a batch takes 71.0 ms to load, a step 20.0 ms; 5 workers keep up with the steps");
  CHECK(choose({0.01, 1, 0.02}, cpu(8)).why ==
        "probe: a batch takes 10.0 ms to load, a step 20.0 ms; 1 worker keeps up with the steps");
  CHECK(choose({1e-3, 1, 0.1}, cpu(8)).why ==
        "probe: a batch takes 1.0 ms to load, a step 0.10 s; loading takes 1 % of the time, too "
        "little for workers to help");
  CHECK(choose({6e-6, 1, 0}, cpu(8)).why ==
        "probe: a batch takes 6 us to load; too short for workers to help");
}
