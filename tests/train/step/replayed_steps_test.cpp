#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/recorded_graph.hpp"
#include "train/rank_runs.hpp"
#include "train/step/captured_step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

using namespace trainctl;

// Compares runs whose steps are captured and replayed with the same runs in eager mode, without a
// GPU: a replay repeats the recorded operators, and nothing of the host code.

namespace {

using GraphCounts = RecordedGraph::Counts;

/// SGD that a CUDA graph can contain: the learning rate and the skips are on the device.
class DeviceSgd final : public stage::Optimizer {
 public:
  explicit DeviceSgd(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {}
  void step() override { step_unless(at::zeros({1})); }
  void step_unless(const at::Tensor& found_inf) override {
    const at::NoGradGuard guard;
    for (at::Tensor& p : parameters_) {
      if (p.grad().defined()) p.sub_(at::where(found_inf.ne(0), 0, p.grad() * rate_));
    }
  }
  void zero_grad() override {
    for (at::Tensor& p : parameters_) {
      if (p.grad().defined()) p.mutable_grad().zero_();
    }
  }
  void set_lr(double lr) override { rate_.fill_(lr); }
  [[nodiscard]] double initial_lr() const override { return 0.5; }
  [[nodiscard]] bool skips_on_device() const override { return true; }
  [[nodiscard]] bool skips_in_kernel() const override { return true; }
  [[nodiscard]] bool is_repeatable() const override { return true; }

 private:
  std::vector<at::Tensor> parameters_;
  at::Tensor rate_ = at::full({}, 0.5, at::kDouble);
};

/// Runs the steps like those of a GPU, which nothing reads on the host, but eagerly.
void run_on_device(FakeRun& run) {
  run.options.cuda_graphs = {true};
  run.real_optimizer = std::make_unique<DeviceSgd>(run.optimizer.parameters);
  run.scheduler.decay = 0.9;
  run.make_graph = [](at::Device) { return nullptr; };
}

/// Makes the run capture its steps.
void capture(FakeRun& run, GraphCounts& counts) {
  run_on_device(run);
  run.make_graph = [&counts](at::Device) { return std::make_unique<RecordedGraph>(counts); };
}

/// Skipped steps log NaN.
bool same(double one, double other) {
  return one == other || (std::isnan(one) && std::isnan(other));
}

void check_equal(const RankRun& captured, const RankRun& eager) {
  CHECK(captured.finished.parameter_digest == eager.finished.parameter_digest);
  CHECK(std::ranges::equal(captured.logged, eager.logged, same));
  CHECK(captured.epochs.back().metrics == eager.epochs.back().metrics);
}

/// Runs three epochs in eager mode and captured, and returns what was captured.
GraphCounts check_equals_eager(FakeRun::Sizes sizes, const std::function<void(FakeRun&)>& prepare) {
  const auto set_up = [&](FakeRun& run) {
    run.model.dropout = 0.25;
    at::manual_seed(11);
    prepare(run);
  };
  const RankRun eager = run_alone(sizes, [&](FakeRun& run, int) {
    set_up(run);
    run_on_device(run);
  });
  GraphCounts counts;
  const RankRun captured = run_alone(sizes, [&](FakeRun& run, int) {
    set_up(run);
    capture(run, counts);
  });
  check_equal(captured, eager);
  return counts;
}

constexpr int kEpochs = 3;

/// Returns the number of batches in windows of full batches only, per epoch.
int usual_batches(std::int64_t samples, std::int64_t batch, std::int64_t accumulate) {
  return static_cast<int>(samples / (batch * accumulate) * accumulate);
}

}  // namespace

TEST_CASE("captured steps: accumulation, clipping, scaler and EMA have the results of eager mode") {
  const std::int64_t samples = GENERATE(48, 46);  // 46: epochs end with a smaller window
  const std::int64_t accumulate = GENERATE(1, 3);
  const auto clip = GENERATE(as<std::string>(), "none", "norm", "value");
  const bool averages = GENERATE(false, true);
  const std::int64_t may_skip = averages ? 2 : 0;
  CAPTURE(samples, accumulate, clip, may_skip, averages);
  const GraphCounts counts =
      check_equals_eager({.samples = samples, .batch = 4, .val_samples = 8}, [&](FakeRun& run) {
        run.options.accumulate = accumulate;
        if (clip != "none") run.options.clip = 0.05;
        if (clip == "value") run.options.clip_algorithm = spec::ClipAlgorithm::value;
        run.options.may_skip = may_skip;
        if (averages) run.options.averaging = train::Averaging{.decay = 0.9, .every_n_steps = {1}};
      });
  const auto warm_ups = static_cast<int>(train::CapturedStep::kWarmUps * accumulate);
  CHECK(counts.warm_ups == warm_ups);
  CHECK(counts.records == std::min<std::int64_t>(accumulate, 3));
  CHECK(counts.replays == kEpochs * usual_batches(samples, 4, accumulate) - warm_ups);
}

TEST_CASE("captured steps: a learning rate that stays on the host makes the results differ") {
  const auto digest = [](const Prepare& prepare) {
    const FakeRun::Sizes sizes{.samples = 48, .batch = 4, .val_samples = 0};
    const RankRun result = run_alone(sizes, [&](FakeRun& run, int rank) {
      prepare(run, rank);
      run.real_optimizer = nullptr;
      run.optimizer.repeatable = true;  // a false claim: a replay repeats the recorded rate
    });
    return result.finished.parameter_digest;
  };
  GraphCounts counts;
  CHECK(digest([&](FakeRun& run, int) { capture(run, counts); }) !=
        digest([](FakeRun& run, int) { run_on_device(run); }));
  CHECK(counts.replays > 0);
}

TEST_CASE("captured steps: steps that are skipped are equal to eager mode") {
  const std::int64_t accumulate = GENERATE(1, 3);
  const auto precision = GENERATE(spec::Precision::full, spec::Precision::fp16_mixed);
  CAPTURE(accumulate);
  (void)check_equals_eager({.samples = 48, .batch = 4, .val_samples = 0}, [&](FakeRun& run) {
    run.options.accumulate = accumulate;
    run.options.may_skip = 4;
    run.options.forward.precision = precision;
    run.loss.after = [calls = torch::zeros({}, torch::kLong)](const at::Tensor& loss, int) {
      const at::Tensor bad = calls.eq(13).logical_or(calls.eq(20)).logical_or(calls.eq(26));
      calls.add_(1);
      return loss * at::where(bad, std::nan(""), 1.0).to(at::kFloat);
    };
  });
}

TEST_CASE("captured steps: class weights, mixed targets and logged norms are equal to eager mode") {
  const std::int64_t accumulate = GENERATE(1, 2);
  const bool mixes = GENERATE(false, true);
  CAPTURE(accumulate, mixes);
  FakeRun::Sizes sizes{.samples = 46, .batch = 4, .val_samples = 8};
  if (mixes) sizes.mixup_alpha = 0.4;
  const GraphCounts counts = check_equals_eager(sizes, [&](FakeRun& run) {
    run.options.accumulate = accumulate;
    run.options.log_norms = true;
    run.options.log_every = 4;
    if (!mixes) run.loss.class_weight = torch::tensor({1.0F, 2.0F, 0.5F});
  });
  CHECK(counts.replays > 0);
}

TEST_CASE("captured steps: profiled steps run eagerly, and the profile has their operators") {
  const std::int64_t accumulate = GENERATE(1, 2);
  const FakeRun::Sizes sizes{.samples = 48, .batch = 4, .val_samples = 0};
  const RankRun eager = run_alone(sizes, [&](FakeRun& run, int) {
    run.options.accumulate = accumulate;
    run_on_device(run);
  });
  GraphCounts counts;
  FakeRun run(sizes);
  const RankRun captured = result_of(run, 0, [&](FakeRun& to, int) {
    to.options.accumulate = accumulate;
    to.options.profiler = spec::Profiler{.wait = 1, .warmup = 1, .active = 2};
    capture(to, counts);
  });
  check_equal(captured, eager);
  const auto windows_before = 1 + 1 + 2 + train::CapturedStep::kWarmUps;
  CHECK(counts.replays == kEpochs * 12 - static_cast<int>(windows_before * accumulate));
  const std::string rows =
      read_file(run.folder / "profile/operators.csv", 1 << 20, ReadFailure::data);
  CHECK_THAT(rows, Contains("\"aten::addmm\",cpu") || Contains("\"aten::linear\",cpu"));
}

TEST_CASE("captured steps: two and three ranks have the results of eager mode") {
  const int world = GENERATE(2, 3);
  const std::int64_t accumulate = GENERATE(1, 2);
  // The last batches of the ranks have different sizes.
  const FakeRun::Sizes sizes{.samples = 12 * 8 + 7, .batch = 4, .val_samples = 7};
  CAPTURE(world, accumulate);
  const auto prepare = [&](FakeRun& run) {
    run.options.accumulate = accumulate;
    run.options.clip = 0.05;
  };
  const auto eager = run_ranks(world, sizes, [&](FakeRun& run, int) {
    prepare(run);
    run_on_device(run);
  });
  std::array<GraphCounts, 3> counts;
  const auto captured = run_ranks(world, sizes, [&](FakeRun& run, int rank) {
    prepare(run);
    capture(run, counts.at(static_cast<std::size_t>(rank)));
  });
  for (int rank = 0; rank < world; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    CHECK(captured[at].finished.parameter_digest == eager[at].finished.parameter_digest);
    CHECK(captured[at].logged == eager[at].logged);
    CHECK(counts.at(at).replays > 0);
    CHECK(counts.at(at).replays == counts[0].replays);
  }
}

TEST_CASE("captured steps: the time of a replayed step is not divided into parts") {
  const FakeRun::Sizes sizes{.samples = 48, .batch = 4, .val_samples = 0};
  GraphCounts counts;
  const RankRun alone = run_alone(sizes, [&](FakeRun& run, int) { capture(run, counts); });
  const events::Timing& first = alone.epochs.front().timing;
  const events::Timing& last = alone.epochs.back().timing;
  CHECK(first.forward_s > 0);
  CHECK(first.graph_s > 0);
  CHECK(last.graph_s > 0);
  CHECK(last.forward_s == 0);
  CHECK(last.backward_s == 0);
  CHECK(run_alone(sizes).epochs.back().timing.graph_s == 0);
}

TEST_CASE("captured steps: work and exchange of a rank are not known if one graph has both") {
  const FakeRun::Sizes sizes{.samples = 96, .batch = 4, .val_samples = 0};
  const bool exchanges = GENERATE(true, false);
  std::array<GraphCounts, 2> counts;
  const auto ranks = run_ranks(2, sizes, [&](FakeRun& run, int rank) {
    if (!exchanges) run.options.strategy = spec::Strategy::local_sgd;
    capture(run, counts.at(static_cast<std::size_t>(rank)));
  });
  for (const RankRun& rank : ranks) {
    REQUIRE(rank.shares.size() == kEpochs);
    for (const events::RankEpoch& share : rank.shares) {
      CHECK(share.wall_s > 0);
      CHECK(std::isfinite(share.data_wait_s));
      for (const double seconds :
           {share.step_s, share.allreduce_exposed_s, share.overlapped_s, share.exposed_s})
        CHECK(std::isnan(seconds) == exchanges);
      if (exchanges) CHECK(share.payload_bytes > 0);
    }
  }
}

TEST_CASE("captured steps: a capture that fails is reported once, and the run is equal to eager") {
  const std::int64_t accumulate = GENERATE(1, 3);
  const int fails_at = GENERATE(0, 1, 2);
  if (fails_at >= accumulate) return;
  CAPTURE(accumulate, fails_at);
  const FakeRun::Sizes sizes{.samples = 48, .batch = 4, .val_samples = 8};
  const RankRun eager = run_alone(sizes, [&](FakeRun& run, int) {
    run.options.accumulate = accumulate;
    run_on_device(run);
  });
  GraphCounts counts{.fails_at = fails_at};
  FakeRun run(sizes);
  const RankRun captured = result_of(run, 0, [&](FakeRun& to, int) {
    to.options.accumulate = accumulate;
    capture(to, counts);
    to.options.cuda_graphs = {};
  });
  check_equal(captured, eager);
  CHECK(counts.records == fails_at + 1);
  REQUIRE(run.all<events::Warning>().size() == 1);
  CHECK(run.all<events::Warning>().front().message ==
        "CUDA graphs are not used: a step could not be captured: operation not permitted");
}

TEST_CASE("captured steps: if the capture fails on one of two ranks, both are equal to eager") {
  const int fails_at = GENERATE(0, 1);
  CAPTURE(fails_at);
  const FakeRun::Sizes sizes{.samples = 96, .batch = 4, .val_samples = 7};
  const auto eager = run_ranks(2, sizes, [](FakeRun& run, int) {
    run.options.accumulate = 2;
    run_on_device(run);
  });
  std::array<GraphCounts, 2> counts;
  counts[1].fails_at = fails_at;
  std::array<int, 2> warnings{};
  const auto captured = run_ranks(2, sizes, [&](FakeRun& run, int rank) {
    const auto at = static_cast<std::size_t>(rank);
    run.options.accumulate = 2;
    capture(run, counts.at(at));
    run.options.cuda_graphs = {};
    run.on_event = [&warnings, at](const events::Event& event) {
      if (std::holds_alternative<events::Warning>(event)) ++warnings.at(at);
    };
  });
  CHECK(captured[0].finished.parameter_digest == eager[0].finished.parameter_digest);
  CHECK(captured[0].logged == eager[0].logged);
  CHECK((warnings == std::array{0, 1}));
  CHECK(counts[0].records == fails_at + 1);
  CHECK(counts[0].replays == fails_at);
}

TEST_CASE(
    "captured steps: local SGD and a graph that is dropped at the end work as in eager mode") {
  const FakeRun::Sizes sizes{.samples = 96, .batch = 4, .val_samples = 7};
  const auto prepare = [](FakeRun& run) {
    run.options.strategy = spec::Strategy::local_sgd;
    run.options.sync_every = 2;
  };
  const auto eager = run_ranks(2, sizes, [&](FakeRun& run, int) {
    prepare(run);
    run_on_device(run);
  });
  std::array<GraphCounts, 2> counts;
  const auto captured = run_ranks(2, sizes, [&](FakeRun& run, int rank) {
    prepare(run);
    capture(run, counts.at(static_cast<std::size_t>(rank)));
  });
  CHECK(captured[0].finished.parameter_digest == eager[0].finished.parameter_digest);
  CHECK(captured[0].logged == eager[0].logged);
  CHECK(counts[1].replays == kEpochs * 12 - train::CapturedStep::kWarmUps);
}
