#include "base/random.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <functional>
#include <limits>

using namespace trainctl;

namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfiniteLoss = std::numeric_limits<double>::infinity();

std::unique_ptr<stage::Stopper> make_divergence(const std::string& options) {
  return stages::builtin_catalog().stoppers.build(
      stages_test::stage("stopper", "divergence", options), {});
}

/// Returns the epoch in which the stopper ends the run, counted from 1, or 0 if it does not.
int end_epoch(const std::string& options, const std::vector<double>& values) {
  const auto stopper = make_divergence(options);
  for (std::size_t epoch = 0; epoch < values.size(); ++epoch) {
    const auto decision = stopper->observe(static_cast<std::int64_t>(epoch), values[epoch]);
    CHECK(decision.stop == decision.diverged);
    CHECK(decision.stop == !decision.reason.empty());
    if (decision.stop) return static_cast<int>(epoch) + 1;
  }
  return 0;
}

}  // namespace

TEST_CASE("divergence: a loss far above its best value ends the run") {
  struct Row {
    std::string options;
    std::vector<double> values;
    int expected;
  };
  const std::vector<Row> rows{
      {"{}", {3, 2, 1, 0.5, 0.1}, 0},
      {"{}", {1, 3, 3, 3}, 0},
      {"{}", {1, 3.01, 3.01}, 3},
      {"{}", {1, 9, 2, 9, 2, 9}, 0},
      {"{patience: 1}", {5, 1, 3.1}, 3},
      {"{patience: 3}", {1, 9, 9, 9}, 4},
      {"{patience: 1, factor: 1.5}", {2, 3, 3.1}, 3},
      {"{patience: 1}", {kNotANumber}, 1},
      {"{}", {kNotANumber, 1, kInfiniteLoss, 1}, 0},
      {"{}", {1, kNotANumber, 9}, 3},
      {"{patience: 1}", {-kInfiniteLoss}, 1},
      {"{patience: 1}", {0, 0.1, 0.11}, 3},
      {"{patience: 1}", {1e-9, 0.05}, 0},
      {"{patience: 1, min_delta: 0}", {1e-9, 0.05}, 2},
      {"{patience: 1}", {-1, -0.5, 0.9, 1.1}, 4},   // the limit is -1 + (3 - 1) * |-1|
      {"{patience: 1}", {2, 1, 0.5, 1.4, 1.6}, 5},  // the limit follows the best, not the first
      {"{patience: 1, skip_first: 1}", {0.1, 2, 5.9, 6.1}, 4},  // a low first value is ignored
      {"{patience: 1, skip_first: 3}", {0.1, 9, 99, 2, 6.1}, 5},
      {"{patience: 1, skip_first: 3}", {1, kNotANumber}, 2},
      // Skipped values count in the average.
      {"{patience: 1, skip_first: 1, smoothing: 0.5}", {9, 0, 8.9, 9.1}, 0},
  };
  for (const Row& row : rows) {
    INFO(row.options << " " << row.values.size() << " values");
    CHECK(end_epoch(row.options, row.values) == row.expected);
  }
}

TEST_CASE("divergence: a loss that falls, or stays within the factor, does not end the run") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CounterRng draw(seed, 0, 0, 0);
    std::vector<double> falling;
    std::vector<double> scattered;
    for (int i = 0; i < 40; ++i) {
      const double u = static_cast<double>(draw.below(1000)) / 1000;
      falling.push_back(10 * u - 5);
      scattered.push_back(1 + 2 * u);
    }
    std::ranges::sort(falling, std::greater<>());
    CHECK(end_epoch("{patience: 1}", falling) == 0);
    CHECK(end_epoch("{patience: 1}", scattered) == 0);
  }
}

TEST_CASE("divergence: train/loss at log points is compared with its own best value") {
  const auto stopper = make_divergence("{patience: 1}");
  CHECK_FALSE(stopper->observe(0, 0.01).diverged);
  CHECK_FALSE(stopper->observe_step(50, 2).diverged);
  const auto decision = stopper->observe_step(100, 7);
  CHECK(decision.diverged);
  CHECK(decision.reason == "train/loss is 7, above the limit of 6 (best 2 at step 50)");

  const auto other = make_divergence("{patience: 1, monitor: val/loss}");
  CHECK_FALSE(other->observe_step(50, kNotANumber).diverged);
  CHECK(other->monitor() == "val/loss");
  CHECK_FALSE(other->restore_best());
}

TEST_CASE("divergence: smoothing tolerates one high loss but not several") {
  const std::string smoothed = "{patience: 1, factor: 2, min_delta: 0, smoothing: 0.9}";
  CHECK(end_epoch("{patience: 1, factor: 2, min_delta: 0}", {1, 1, 1, 1, 1, 4, 1}) == 6);
  CHECK(end_epoch(smoothed, {1, 1, 1, 1, 1, 4, 1}) == 0);
  // The bias-corrected means are 1, 1, 1, 1, 1, 1.64, 2.09.
  CHECK(end_epoch(smoothed, {1, 1, 1, 1, 1, 4, 4, 4}) == 7);
  CHECK(end_epoch(smoothed, {1, kNotANumber}) == 2);
  // NaN is not averaged.
  CHECK(end_epoch("{patience: 2, smoothing: 0.9}", {1, kNotANumber, 1, 1, 1}) == 0);
}

TEST_CASE("divergence: the reason gives the value, the limit and the best value") {
  const auto patient = make_divergence("{}");
  patient->observe(0, 1);
  patient->observe(1, 4);
  CHECK(patient->observe(2, 8).reason ==
        "train/loss is 8, above the limit of 3 for 2 values in a row (best 1 in epoch 1)");
  CHECK(make_divergence("{patience: 1}")->observe(0, kNotANumber).reason ==
        "train/loss is nan, and was never finite");
}
