#include "engine/rank_runs.hpp"
#include "stages/builtin.hpp"
#include "support/catch.hpp"
#include "support/recorded_graph.hpp"

#include <cmath>

using namespace trainctl;
using namespace rank_runs;

// Compares runs of real stages whose steps are recorded and replayed with the same runs in eager
// mode, without a GPU.

namespace {

/// Decreases with every step.
struct DecayingRate final : stage::Scheduler {
  [[nodiscard]] double lr(std::int64_t /*epoch*/, std::int64_t global_step) const override {
    return 0.05 * std::pow(0.9, static_cast<double>(global_step));
  }
  void observe(std::int64_t /*epoch*/, double /*monitored*/) override {}
  [[nodiscard]] std::string monitor() const override { return {}; }
};

/// The counts of each rank; null: the steps run like those of a GPU, but eagerly.
using Counts = std::vector<RecordedGraph::Counts>;

std::vector<RankResult> run_steps(Plan plan, RecordedGraph::Reads reads, Counts* counts) {
  plan.prepare = [=, before = plan.prepare](FakeRun& run, int rank) {
    if (before) before(run, rank);
    run.options.cuda_graphs = {true};
    run.real_scheduler = std::make_unique<DecayingRate>();
    run.make_graph = [=](at::Device) -> std::unique_ptr<device::StepGraph> {
      if (counts == nullptr) return nullptr;
      return std::make_unique<RecordedGraph>(counts->at(static_cast<std::size_t>(rank)), reads);
    };
  };
  return run(plan);
}

std::vector<RankResult> check_replays(const Plan& plan,
                                      RecordedGraph::Reads reads = RecordedGraph::Reads::refused) {
  auto eager = run_steps(plan, reads, nullptr);
  Counts counts(eager.size());
  const auto replayed = run_steps(plan, reads, &counts);
  for (std::size_t rank = 0; rank < eager.size(); ++rank) {
    CAPTURE(rank);
    CHECK(counts[rank].replays > 4);
    CHECK(replayed[rank].losses == eager[rank].losses);
    CHECK(same_bits(replayed[rank].weights, eager[rank].weights));
    CHECK(same_bits(replayed[rank].optimizer, eager[rank].optimizer));
  }
  return eager;
}

/// Eight steps of full batches in each epoch, and one smaller.
Plan plan_of(int world) {
  Plan plan;
  plan.world = world;
  plan.samples = std::int64_t{8} * world * plan.batch + 2 * world + 1;
  return plan;
}

}  // namespace

TEST_CASE("replayed steps: every optimizer has the results of eager mode") {
  for (const std::string& optimizer : stages::builtin_catalog().optimizers.names()) {
    INFO(optimizer);
    Plan plan = plan_of(1);
    plan.optimizer = optimizer;
    plan.optimizer_options = "{lr: 0.02, weight_decay: 0.01, no_weight_decay_on: [bias]}";
    plan.prepare = [](FakeRun& run, int) { run.options.accumulate = 2; };
    check_replays(plan);
  }
}

TEST_CASE("replayed steps: zero1 has the results of eager mode and of ddp") {
  for (const char* optimizer : {"adamw", "sgd"}) {
    INFO(optimizer);
    Plan plan = plan_of(3);
    plan.optimizer = optimizer;
    plan.optimizer_options = "{lr: 0.02, weight_decay: 0.01}";
    plan.model = "[flatten, {type: linear, out_features: 9}, relu, linear]";
    plan.prepare = [](FakeRun& run, int) {
      run.options.clip = 0.5;
      run.options.averaging = train::Averaging{0.9, {1}, 0};
    };
    const auto ddp = check_replays(plan);
    plan.strategy = spec::Strategy::zero1;
    const auto zero = check_replays(plan);
    for (std::size_t rank = 0; rank < zero.size(); ++rank)
      CHECK(same_bits(zero[rank].weights, ddp[0].weights));
  }
}

TEST_CASE("replayed steps: sync_batch_norm on three ranks has the results of eager mode") {
  Plan plan = plan_of(3);
  plan.model =
      "[{type: conv2d, out_channels: 4, kernel_size: 1}, batch_norm2d, relu, flatten, linear]";
  plan.prepare = [](FakeRun& run, int) { run.options.sync_batch_norm = true; };
  // On a CPU, the layer reads the number of values.
  check_replays(plan, RecordedGraph::Reads::allowed);
}
