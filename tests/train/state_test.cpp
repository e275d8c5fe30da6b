#include "base/hash.hpp"
#include "train/hand_over.hpp"
#include "train/loop/loop_state.hpp"
#include "train/loop/progress_reporter.hpp"
#include "train/parallel/replicas.hpp"
#include "train/state/weight_averaging.hpp"

#include <bit>
#include <limits>

using namespace trainctl;
using train::GradScaler;
using train::LossMeter;

namespace {

float gradient_of(int step) {
  if (step % 7 == 3) return std::numeric_limits<float>::infinity();
  return step % 11 == 5 ? std::numeric_limits<float>::quiet_NaN() : 1;
}

void scale_steps(GradScaler& scaler, int from, int to) {
  for (int step = from; step < to; ++step) {
    const at::Tensor gradient = torch::full({2}, gradient_of(step));
    scaler.unscale({gradient});
    scaler.update();
  }
}

std::vector<double> numbers_of(const GradScaler& scaler) {
  return {scaler.current_scale(), static_cast<double>(scaler.skipped()),
          static_cast<double>(scaler.most_skipped_in_a_row()), scaler.found_inf().item<double>()};
}

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

/// A reporter with its inputs in the middle of an epoch.
struct Reporting {
  FakeRun run;
  train::Options options;
  train::Session session;
  train::LoopState state;
  train::Phases phases;
  std::unique_ptr<dist::GradSync> sync;
  train::StepRunner step;
  train::ProgressReporter reporter;

  Reporting()
      : session(session_of(with_slow_clock(run))),
        phases(session, options, state),
        sync(train::synchronize(session, options)),
        step(session, options, phases.timer(), *sync),
        reporter(session, options, phases, step, *sync) {
    state.position.global_step = 1;  // not a log point
  }
  /// Advances by a second on every reading, so that each step is shown.
  static FakeRun& with_slow_clock(FakeRun& run) {
    run.clock = std::make_shared<TickingClock>(1);
    return run;
  }
  /// Returns the loss that the progress line shows after the next step.
  std::optional<double> shown() {
    run.events.clear();
    phases.switch_to(train::Part::other);
    reporter.on_step_end(state);
    REQUIRE(run.all<events::Progress>().size() == 1);
    return run.all<events::Progress>().front().loss;
  }
};

stage::LossValue loss(double value) { return {torch::tensor(static_cast<float>(value)), {}}; }

}  // namespace

TEST_CASE("GradScaler: restored state continues identically, including skipped steps") {
  for (const auto after_non_finite :
       {GradScaler::AfterNonFinite::continues, GradScaler::AfterNonFinite::stops}) {
    for (const int before : {0, 4, 9, 40}) {
      INFO("after " << before << " steps");
      GradScaler whole(at::kCPU, GradScaler::Scaling::dynamic, after_non_finite);
      scale_steps(whole, 0, before);
      GradScaler resumed(at::kCPU, GradScaler::Scaling::dynamic, after_non_finite);
      hand_over_state(whole, resumed);
      CHECK(numbers_of(resumed) == numbers_of(whole));
      scale_steps(whole, before, before + 9);
      scale_steps(resumed, before, before + 9);
      CHECK(numbers_of(resumed) == numbers_of(whole));
    }
  }
}

TEST_CASE("GradScaler: the state includes the number of steps since the last growth") {
  GradScaler whole(at::kCPU, GradScaler::Scaling::dynamic);
  const auto good_steps = [](GradScaler& scaler, int count) {
    const at::Tensor gradient = torch::ones({1});
    for (int i = 0; i < count; ++i) {
      scaler.unscale({gradient});
      scaler.update();
    }
  };
  good_steps(whole, 1500);
  GradScaler resumed(at::kCPU, GradScaler::Scaling::dynamic);
  hand_over_state(whole, resumed);
  good_steps(resumed, 499);
  CHECK(resumed.current_scale() == 65536);
  good_steps(resumed, 1);
  CHECK(resumed.current_scale() == 131072);
}

TEST_CASE("WeightAverager: restored state continues identically for EMA and SWA") {
  const train::Averaging ema{0.9, {2}, 0};
  const train::Averaging swa{{}, {1}, 1};
  for (const train::Averaging& options : {ema, swa}) {
    for (const std::int64_t before : {0, 1, 5, 8}) {
      INFO("after " << before << " steps");
      FakeModel model;
      FakeModel again;
      train::WeightAverager whole(model, options, 3);
      const auto steps = [](FakeModel& of, train::WeightAverager& averager, std::int64_t from,
                            std::int64_t to) {
        for (std::int64_t step = from; step < to; ++step) {
          set_weights(of, std::sin(static_cast<double>(step)));
          averager.update(step + 1);
        }
      };
      steps(model, whole, 0, before);
      train::WeightAverager resumed(again, options, 3);
      hand_over_values(whole, resumed);
      hand_over_state(whole, resumed);
      steps(model, whole, before, 12);
      steps(again, resumed, before, 12);
      whole.swap();
      resumed.swap();
      CHECK(torch::equal(again.weight, model.weight));
      CHECK(torch::equal(again.bias, model.bias));
      CHECK(torch::equal(again.batches, model.batches));
    }
  }
}

TEST_CASE("WeightAverager: an average that is swapped in cannot be saved") {
  FakeModel model;
  train::WeightAverager averager(model, {0.9, {1}, 0}, 1);
  averager.update(1);
  CHECK(averager.state().size() == 3);
  const train::AveragedWeights scope(&averager);
  CHECK_THROWS_WITH(averager.state(), Contains("swapped_in_"));
  CHECK_THROWS_WITH(remember(averager), Contains("swapped_in_"));
}

TEST_CASE("LossMeter: restored sums are bitwise equal") {
  LossMeter whole(at::kCPU);
  LossMeter resumed(at::kCPU);
  CHECK(whole.state().empty());
  for (int batch = 0; batch < 20; ++batch) {
    if (batch == 7) hand_over_values(whole, resumed);
    whole.add(loss(0.1 * batch + 1.0 / 3), 4 + batch % 3);
    if (batch >= 7) resumed.add(loss(0.1 * batch + 1.0 / 3), 4 + batch % 3);
  }
  CHECK(bits(resumed.total()) == bits(whole.total()));
  CHECK(bits(resumed.weight()) == bits(whole.weight()));
}

TEST_CASE("ProgressReporter: restored state continues from the epoch's last log point") {
  Reporting whole;
  whole.reporter.on_epoch_begin(whole.state);
  whole.step.meter().add(loss(8), 4);
  CHECK(whole.shown() == 8.0);
  Reporting resumed;
  hand_over_values(whole.reporter, resumed.reporter);
  resumed.step.meter().add(loss(8), 4);
  resumed.step.meter().add(loss(2), 4);
  CHECK(resumed.shown() == 2.0);
  CHECK(remember(whole.reporter).contains("log_mark"));
}

TEST_CASE("RunDigest: combines the epochs' digests, also across a resume") {
  Hasher hasher;
  train::RunDigest whole;
  CHECK(whole.hex() == hasher.hex());
  train::RunDigest resumed;
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch) {
    const std::uint64_t digest = ~std::uint64_t{0} / (epoch + 1);
    if (epoch == 4) hand_over_values(whole, resumed);
    hasher.add(digest);
    whole.add(digest);
    if (epoch >= 4) resumed.add(digest);
    CHECK(whole.hex() == hasher.hex());
  }
  CHECK(resumed.hex() == whole.hex());
  whole.miss();
  CHECK(whole.hex().empty());
  hand_over_values(whole, resumed);
  CHECK(resumed.hex().empty());
}
