#include "train/measure/step_benchmark.hpp"

#include "support/catch.hpp"
#include "train/fake_run.hpp"
#include "train/state/saved_state.hpp"

#include <ATen/Parallel.h>

using namespace trainctl;
using train::ReplayCost;

namespace {

/// Advances by `step` on every reading.
class SteppingClock final : public Clock {
 public:
  explicit SteppingClock(double step) : step_(step) {}
  [[nodiscard]] double now() const override { return now_ += step_; }

 private:
  double step_;
  mutable double now_ = 0;
};

/// The arguments of the probe, from a fake run that was not started.
struct Probe {
  FakeRun run;
  device::DeviceBatch batch;
  events::Heartbeat page{};

  explicit Probe(std::int64_t valid) {
    run.model.dropout = 0.5;
    batch.inputs = torch::rand({valid, 1, 2, 3});
    batch.targets = torch::zeros({valid}, torch::kLong);
    batch.valid = batch.global_valid = valid;
  }

  std::optional<train::ReplayedBatch> replay(std::int64_t steps, double setting_budget_s = 0,
                                             int cores = 0) {
    const train::Session session{.model = run.model,
                                 .loss = run.loss,
                                 .optimizer = run.optimizer,
                                 .scheduler = run.scheduler,
                                 .metrics = run.metrics,
                                 .train = *run.train,
                                 .validation = run.validation.get(),
                                 .batch_size = run.sizes.batch,
                                 .communicator = *run.communicator,
                                 .buckets = {},
                                 .clock = *run.clock,
                                 .emit = [](const auto&) {},
                                 .heartbeat = &page,
                                 .stop_signal = &run.stop_signal,
                                 .run_dir = run.folder.path(),
                                 .cores = cores};
    return train::replay_batch(session, {.batch = batch,
                                         .forward = {},
                                         .steps = steps,
                                         .setting_budget_s = setting_budget_s,
                                         .has_bf16 = setting_budget_s > 0});
  }
};

}  // namespace

TEST_CASE(
    "ReplayCost: a replay takes 1 % of the training or half a second, or the minimum of steps") {
  CHECK(ReplayCost{.training_s = 10, .passes_s = 5, .batches = 1000}.steps() == 20);
  CHECK(ReplayCost{.training_s = 1000, .passes_s = 500, .batches = 10000}.steps() == 10);
  CHECK(ReplayCost{.training_s = 1000, .passes_s = 800, .batches = 4000}.steps() == 7);
  CHECK(ReplayCost{.training_s = 1000, .passes_s = 1, .batches = 100000}.steps() == 52);
}

TEST_CASE("ReplayCost: a run that is short or has long steps is not replayed") {
  CHECK(ReplayCost{}.steps() == 0);
  CHECK(ReplayCost{.training_s = 1.9, .passes_s = 0.1, .batches = 1000}.steps() == 0);
  CHECK(ReplayCost{.training_s = 10, .passes_s = 9, .batches = 10}.steps() == 0);
  CHECK(ReplayCost{.training_s = 10, .passes_s = 0, .batches = 10}.steps() == 0);
  CHECK(ReplayCost{.training_s = 1e6, .passes_s = 9e5, .batches = 900'000}.steps() == 0);
}

TEST_CASE("replay_batch: weights, buffers, generators and the optimizer are unchanged afterwards") {
  Probe probe(4);
  const at::Tensor weight = probe.run.model.weight.detach().clone();
  probe.run.model.batches.fill_(17);
  const auto random = train::random_states(at::kCPU);
  const auto found = probe.replay(9);
  REQUIRE(found);
  CHECK(found->steps == 7);
  CHECK(found->step_s > 0);
  CHECK(torch::equal(probe.run.model.weight, weight));
  CHECK(probe.run.model.batches.item<std::int64_t>() == 17);
  CHECK(torch::equal(train::random_states(at::kCPU).front().tensor, random.front().tensor));
  CHECK(probe.run.optimizer.steps == 0);
  CHECK_FALSE(probe.run.model.weight.grad().defined());
}

TEST_CASE("replay_batch: a short last batch is filled up, and an empty one is not replayed") {
  Probe probe(3);
  CHECK(probe.replay(5));
  CHECK(probe.run.model.rows == probe.run.sizes.batch);
  probe.batch.valid = 0;
  CHECK_FALSE(probe.replay(5));
}

TEST_CASE("replay_batch: a step that fails ends the replay but not the run") {
  Probe probe(4);
  probe.run.model.batches.fill_(3);
  probe.run.loss.after = [](const at::Tensor& loss, int call) -> at::Tensor {
    if (call == 2) throw std::runtime_error("no more");
    return loss;
  };
  CHECK_FALSE(probe.replay(9));
  CHECK(probe.run.model.batches.item<std::int64_t>() == 3);
}

TEST_CASE("replay_batch: ends after about two seconds of slow steps and sends heartbeats") {
  Probe probe(4);
  probe.run.clock = std::make_shared<SteppingClock>(0.1);
  probe.page.global_step = 41;
  const auto found = probe.replay(52);
  REQUIRE(found);
  CHECK(found->steps < 12);
  CHECK(probe.run.loss.calls < 14);
  CHECK(probe.page.monotonic_ns > 0);
  CHECK(probe.page.global_step == 41);
}

TEST_CASE("replay_batch: times a larger batch, another thread count and bf16 within the budget") {
  Probe probe(4);
  const int threads = at::get_num_threads();
  const at::Tensor weight = probe.run.model.weight.detach().clone();
  CHECK_FALSE(probe.replay(9)->larger_batch);
  probe.run.clock = std::make_shared<SteppingClock>(0.01);
  const auto found = probe.replay(9, 2, threads + 1);
  REQUIRE(found);
  REQUIRE(found->larger_batch);
  CHECK(found->larger_batch->value == 8 * probe.run.sizes.batch);
  CHECK(found->larger_batch->step_s > 0);
  REQUIRE(found->other_threads);
  CHECK(found->other_threads->value == threads + 1);
  CHECK(found->precision);
  CHECK(at::get_num_threads() == threads);
  CHECK(torch::equal(probe.run.model.weight, weight));
  CHECK_FALSE(probe.run.model.weight.grad().defined());
}

TEST_CASE("replay_batch: settings whose steps exceed the budget are skipped") {
  Probe probe(4);
  probe.run.clock = std::make_shared<SteppingClock>(0.01);  // the same for eight rows
  const auto found = probe.replay(9, 0.15, at::get_num_threads() + 1);
  REQUIRE(found);
  REQUIRE(found->larger_batch);
  CHECK(found->larger_batch->value == 2 * probe.run.sizes.batch);
  const auto none = probe.replay(9, 0.05, at::get_num_threads() + 1);
  REQUIRE(none);
  CHECK_FALSE(none->larger_batch);
  CHECK_FALSE(none->other_threads);
}

TEST_CASE("replay_batch: a run that uses all cores is compared with one thread") {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  Probe probe(4);
  probe.run.clock = std::make_shared<SteppingClock>(0.001);
  const auto found = probe.replay(9, 2, 2);
  at::set_num_threads(before);
  REQUIRE(found);
  REQUIRE(found->other_threads);
  CHECK(found->other_threads->value == 1);
}

TEST_CASE("replay_batch: the result is kept if another setting fails") {
  Probe probe(4);
  probe.run.clock = std::make_shared<SteppingClock>(0.01);
  probe.run.loss.after = [](const at::Tensor& loss, int call) -> at::Tensor {
    if (call > 9) throw std::runtime_error("no memory");
    return loss;
  };
  const auto found = probe.replay(9, 2, at::get_num_threads() + 1);
  REQUIRE(found);
  CHECK(found->steps == 7);
  CHECK_FALSE(found->other_threads);
}

TEST_CASE("StepBenchmark: a run with detect_anomaly is replayed without its checks") {
  FakeRun run({.samples = 4000});
  run.options.max_epochs = 2;
  run.options.detect_anomaly = true;
  run.clock = std::make_shared<SteppingClock>(0.01);
  CHECK(run.run().replay_step_s);
}

TEST_CASE("replay_batch: a stop request ends the replay without a result") {
  Probe probe(4);
  probe.run.loss.after = [&](const at::Tensor& loss, int call) {
    if (call == 3) probe.run.stop_signal = 15;
    return loss;
  };
  CHECK_FALSE(probe.replay(30));
  CHECK(probe.run.loss.calls == 4);
}

namespace {

/// The state at the end of a run.
struct EndState {
  events::Finished finished;
  std::vector<at::Tensor> tensors;  // weights, buffers, generators
  int optimizer_steps = 0;
};

EndState end_state_of(double step_s) {
  torch::manual_seed(5);
  FakeRun run({.samples = 4000});
  run.model.dropout = 0.5;
  run.options.max_epochs = 2;
  run.clock = std::make_shared<SteppingClock>(step_s);
  EndState state_at_end{run.run(), {}, run.optimizer.steps};
  for (const auto& [name, parameter] : run.model.parameters())
    state_at_end.tensors.push_back(parameter.detach().clone());
  for (const auto& [name, buffer] : run.model.buffers())
    state_at_end.tensors.push_back(buffer.clone());
  for (const auto& [name, state] : train::random_states(at::kCPU))
    state_at_end.tensors.push_back(state.clone());
  return state_at_end;
}

}  // namespace

TEST_CASE("StepBenchmark: a replay at the end does not change the run's result") {
  const EndState without = end_state_of(1e-6);
  const EndState with = end_state_of(0.01);
  CHECK_FALSE(without.finished.replay_step_s);
  CHECK(with.finished.replay_step_s);
  CHECK(with.finished.parameter_digest == without.finished.parameter_digest);
  CHECK(with.optimizer_steps == without.optimizer_steps);
  REQUIRE(with.tensors.size() == without.tensors.size());
  for (std::size_t i = 0; i < with.tensors.size(); ++i) {
    CAPTURE(i);
    CHECK(torch::equal(with.tensors[i], without.tensors[i]));
  }
}

TEST_CASE("StepBenchmark: a run that was asked to stop ends without a replay") {
  FakeRun run({.samples = 4000});
  run.options.max_epochs = 9;
  run.clock = std::make_shared<SteppingClock>(0.01);
  run.on_event = [&](const events::Event& event) {
    if (std::holds_alternative<events::EpochEnded>(event)) run.stop_signal = 15;
  };
  CHECK_FALSE(run.run().replay_step_s);
}
