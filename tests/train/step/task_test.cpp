#include "support/catch.hpp"
#include "train/fake_run.hpp"

using namespace trainctl;

namespace {

/// A task with the value of the loss doubled, which records what it is lent.
struct DoubledTask final : stage::Task {
  std::vector<std::int64_t> trained, evaluated;  // samples in the order of the batches
  std::vector<std::int64_t> epochs;
  std::int64_t shift = 0;  // of the classes

  stage::TaskResult step(const device::DeviceBatch& batch, stage::StepTools& tools) override {
    const stage::BatchSamples samples = tools.samples(batch);
    const bool trains = tools.mode() == stage::RunMode::train;
    auto& seen = trains ? trained : evaluated;
    seen.insert(seen.end(), samples.indices.begin(), samples.indices.end());
    if (trains) epochs.push_back(samples.epoch);
    stage::TaskResult result{tools.forward(batch.inputs), batch, {}};
    result.batch.targets = (batch.targets + shift).remainder(3);
    result.loss = tools.loss(result.outputs, result.batch, 2);
    result.loss.value = result.loss.value * 2;
    return result;
  }
};

double value_of(const FakeRun& run, const std::string& name) {
  return events::find_metric(run.all<events::EpochEnded>().at(0).metrics, name).value();
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::ranges::sort(values);
  return values;
}

std::vector<std::int64_t> counted(std::int64_t count) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(i);
  return values;
}

}  // namespace

TEST_CASE("task: the loop minimizes what the task returns, and an evaluation reports it") {
  FakeRun plain;
  FakeRun doubled;
  doubled.task = std::make_unique<DoubledTask>();
  doubled.scheduler.rate = plain.scheduler.rate / 2;
  plain.run();
  doubled.run();
  CHECK(doubled.model.weight.equal(plain.model.weight));
  CHECK(value_of(doubled, "val/loss") == 2 * value_of(plain, "val/loss"));
  CHECK(value_of(doubled, "train/loss") == 2 * value_of(plain, "train/loss"));
}

TEST_CASE("task: metrics get the targets of the task") {
  FakeRun plain;
  FakeRun shifted;
  auto shifting = std::make_unique<DoubledTask>();
  shifting->shift = 1;
  shifted.task = std::move(shifting);
  plain.run();
  shifted.run();
  const at::Tensor& classes = plain.metric().last_targets;
  CHECK(shifted.metric().last_targets.equal((classes + 1).remainder(3)));
}

TEST_CASE("task: each batch says which samples of the data set it contains") {
  FakeRun run;
  auto recording = std::make_unique<DoubledTask>();
  const DoubledTask& seen = *recording;
  run.task = std::move(recording);
  run.options.max_epochs = 2;
  run.run();
  REQUIRE(seen.trained.size() == 40);
  const std::vector<std::int64_t> first(seen.trained.begin(), seen.trained.begin() + 20);
  CHECK(first != counted(20));  // shuffled
  CHECK(sorted(first) == counted(20));
  CHECK(seen.epochs.front() == 0);
  CHECK(seen.epochs.back() == 1);
  REQUIRE(seen.evaluated.size() >= 8);
  CHECK(std::vector<std::int64_t>(seen.evaluated.begin(), seen.evaluated.begin() + 8) ==
        counted(8));
}
