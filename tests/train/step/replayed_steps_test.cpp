#include "base/files.hpp"
#include "support/catch.hpp"
#include "train/rank_runs.hpp"
#include "train/step/captured_step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

using namespace trainctl;

// Compares runs whose steps are captured and replayed with the same runs in eager mode, without a
// GPU.

namespace {

struct GraphCounts {
  int warm_ups = 0;
  int records = 0;
  int replays = 0;
  int fails_at = -1;  // the number of the capture that fails
};

/// Whether the backward pass of the first batch of a window allocates gradients. With several ranks
/// they are parts of buckets.
enum class Gradients { allocated, in_buckets };

/// Replays on the CPU what a CUDA graph would compute, by running the captured work again. As with
/// a graph, a capture computes nothing, each gradient is written where it was during the capture,
/// and a replay does not change the host's references to gradients.
class RerunGraph final : public device::StepGraph {
 public:
  RerunGraph(std::vector<at::Tensor> parameters, Gradients kind, GraphCounts& counts)
      : parameters_(std::move(parameters)), kind_(kind), counts_(counts) {}

  void warm_up(const Work& work) override {
    ++counts_.warm_ups;
    work();
  }
  std::size_t record(const Work& work) override {
    const bool fails = counts_.records++ == counts_.fails_at;
    Captured captured{.work = work, .before = gradients(), .after = {}};
    if (kind_ == Gradients::allocated && (graphs_.empty() || fails)) allocate();
    if (fails) throw Error(ErrorKind::resource, "operation not permitted");
    captured.after = gradients();
    graphs_.push_back(std::move(captured));
    return graphs_.size() - 1;
  }
  void replay(std::size_t graph) override {
    ++counts_.replays;
    const Captured& captured = graphs_.at(graph);
    const std::vector<at::Tensor> host = gradients();
    set(captured.before);
    captured.work();
    const std::vector<at::Tensor> now = gradients();
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (!now[i].is_same(captured.after[i])) captured.after[i].copy_(now[i]);
    }
    set(host);
  }

 private:
  struct Captured {
    Work work;
    std::vector<at::Tensor> before, after;  // gradients by parameter
  };

  /// Gives the parameters gradients that no kernel has written.
  void allocate() {
    for (at::Tensor& parameter : parameters_)
      parameter.mutable_grad() = at::full_like(parameter.detach(), 1e9);
  }
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : parameters_) all.push_back(parameter.grad());
    return all;
  }
  void set(const std::vector<at::Tensor>& gradients) {
    for (std::size_t i = 0; i < gradients.size(); ++i) parameters_[i].mutable_grad() = gradients[i];
  }

  std::vector<at::Tensor> parameters_;
  Gradients kind_;
  GraphCounts& counts_;
  std::vector<Captured> graphs_;
};

/// Makes the run capture its steps.
void capture(FakeRun& run, GraphCounts& counts) {
  run.options.cuda_graphs = {true};
  run.optimizer.repeatable = true;
  const bool alone = run.communicator->rank_info().world_size == 1 ||
                     run.options.strategy == spec::Strategy::local_sgd;
  const Gradients kind = alone ? Gradients::allocated : Gradients::in_buckets;
  run.make_graph = [&run, &counts, kind](at::Device) {
    return std::make_unique<RerunGraph>(run.optimizer.parameters, kind, counts);
  };
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
    run.optimizer.skips = true;
    run.model.dropout = 0.25;
    at::manual_seed(11);
    prepare(run);
  };
  const RankRun eager = run_alone(sizes, [&](FakeRun& run, int) { set_up(run); });
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

TEST_CASE("captured steps: steps that are skipped are equal to eager mode") {
  const std::int64_t accumulate = GENERATE(1, 3);
  const auto precision = GENERATE(spec::Precision::full, spec::Precision::fp16_mixed);
  CAPTURE(accumulate);
  (void)check_equals_eager({.samples = 48, .batch = 4, .val_samples = 0}, [&](FakeRun& run) {
    run.options.accumulate = accumulate;
    run.options.may_skip = 4;
    run.options.forward.precision = precision;
    run.loss.after = [](const at::Tensor& loss, int call) {
      const bool bad = call == 13 || call == 20 || call == 26;
      return bad ? loss * std::nan("") : loss;
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
  const RankRun eager =
      run_alone(sizes, [&](FakeRun& run, int) { run.options.accumulate = accumulate; });
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
    run.optimizer.skips = true;
    run.options.accumulate = accumulate;
    run.options.clip = 0.05;
  };
  const auto eager = run_ranks(world, sizes, [&](FakeRun& run, int) { prepare(run); });
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

TEST_CASE("captured steps: a capture that fails is reported once, and the run is equal to eager") {
  const std::int64_t accumulate = GENERATE(1, 3);
  const int fails_at = GENERATE(0, 1, 2);
  if (fails_at >= accumulate) return;
  CAPTURE(accumulate, fails_at);
  const FakeRun::Sizes sizes{.samples = 48, .batch = 4, .val_samples = 8};
  const RankRun eager =
      run_alone(sizes, [&](FakeRun& run, int) { run.options.accumulate = accumulate; });
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
  const auto eager = run_ranks(2, sizes, [](FakeRun& run, int) { run.options.accumulate = 2; });
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
  const auto eager = run_ranks(2, sizes, [&](FakeRun& run, int) { prepare(run); });
  std::array<GraphCounts, 2> counts;
  const auto captured = run_ranks(2, sizes, [&](FakeRun& run, int rank) {
    prepare(run);
    capture(run, counts.at(static_cast<std::size_t>(rank)));
  });
  CHECK(captured[0].finished.parameter_digest == eager[0].finished.parameter_digest);
  CHECK(captured[0].logged == eager[0].logged);
  CHECK(counts[1].replays == kEpochs * 12 - train::CapturedStep::kWarmUps);
}
