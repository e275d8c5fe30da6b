#include "train/replay_probe.hpp"

#include "fake_run.hpp"
#include "support/catch.hpp"
#include "train/rng.hpp"

using namespace trainctl;
using train::ReplayCost;

namespace {

/// Each reading is so much later than the one before.
class SteppingClock final : public Clock {
 public:
  explicit SteppingClock(double step) : step_(step) {}
  [[nodiscard]] double now() const override { return now_ += step_; }

 private:
  double step_;
  mutable double now_ = 0;
};

/// What the probe is given, on a fake run that never ran.
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

  std::optional<train::ReplayedBatch> replay(std::int64_t steps) {
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
                                 .run_dir = run.folder.path()};
    return train::replay_batch(session, {batch, {}, steps});
  }
};

}  // namespace

TEST_CASE("a replay takes 1 % of the training, half a second or the fewest steps that tell") {
  CHECK(ReplayCost{.training_s = 10, .passes_s = 5, .batches = 1000}.steps() == 20);
  CHECK(ReplayCost{.training_s = 1000, .passes_s = 500, .batches = 10000}.steps() == 10);
  CHECK(ReplayCost{.training_s = 1000, .passes_s = 800, .batches = 4000}.steps() == 7);
  CHECK(ReplayCost{.training_s = 1000, .passes_s = 1, .batches = 100000}.steps() == 52);
}

TEST_CASE("a run that is short, or whose steps are long, has no replay") {
  CHECK(ReplayCost{}.steps() == 0);
  CHECK(ReplayCost{.training_s = 1.9, .passes_s = 0.1, .batches = 1000}.steps() == 0);
  CHECK(ReplayCost{.training_s = 10, .passes_s = 9, .batches = 10}.steps() == 0);
  CHECK(ReplayCost{.training_s = 10, .passes_s = 0, .batches = 10}.steps() == 0);
  CHECK(ReplayCost{.training_s = 1e6, .passes_s = 9e5, .batches = 900'000}.steps() == 0);
}

TEST_CASE("a replay leaves weights, buffers, generators and the optimizer as they were") {
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

TEST_CASE("a last batch of few rows is filled up to a full one, and one of none is not replayed") {
  Probe probe(3);
  CHECK(probe.replay(5));
  CHECK(probe.run.model.rows == probe.run.sizes.batch);
  probe.batch.valid = 0;
  CHECK_FALSE(probe.replay(5));
}

TEST_CASE("a step that fails ends the replay and not the run") {
  Probe probe(4);
  probe.run.model.batches.fill_(3);
  probe.run.loss.after = [](const at::Tensor& loss, int call) -> at::Tensor {
    if (call == 2) throw std::runtime_error("no more");
    return loss;
  };
  CHECK_FALSE(probe.replay(9));
  CHECK(probe.run.model.batches.item<std::int64_t>() == 3);
}

TEST_CASE("a replay of slow steps ends after about two seconds, and beats") {
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

TEST_CASE("a replay ends where the run is asked to stop") {
  Probe probe(4);
  probe.run.loss.after = [&](const at::Tensor& loss, int call) {
    if (call == 3) probe.run.stop_signal = 15;
    return loss;
  };
  CHECK_FALSE(probe.replay(30));
  CHECK(probe.run.loss.calls == 4);
}

namespace {

/// What a whole run leaves, as it is when nothing of it will run any more.
struct Left {
  events::Finished finished;
  std::vector<at::Tensor> tensors;  // weights, buffers, generators
  int optimizer_steps = 0;
};

Left left_by(double step_s) {
  torch::manual_seed(5);
  FakeRun run({.samples = 4000});
  run.model.dropout = 0.5;
  run.options.max_epochs = 2;
  run.clock = std::make_shared<SteppingClock>(step_s);
  Left left{run.run(), {}, run.optimizer.steps};
  for (const auto& [name, parameter] : run.model.parameters())
    left.tensors.push_back(parameter.detach().clone());
  for (const auto& [name, buffer] : run.model.buffers()) left.tensors.push_back(buffer.clone());
  for (const auto& [name, state] : train::random_states(at::kCPU))
    left.tensors.push_back(state.clone());
  return left;
}

}  // namespace

TEST_CASE("a run with a replay behind it leaves what one without it does") {
  const Left without = left_by(1e-6);
  const Left with = left_by(0.01);
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

TEST_CASE("a run that was asked to stop ends at once, without a replay") {
  FakeRun run({.samples = 4000});
  run.options.max_epochs = 9;
  run.clock = std::make_shared<SteppingClock>(0.01);
  run.on_event = [&](const events::Event& event) {
    if (std::holds_alternative<events::EpochEnded>(event)) run.stop_signal = 15;
  };
  CHECK_FALSE(run.run().replay_step_s);
}
