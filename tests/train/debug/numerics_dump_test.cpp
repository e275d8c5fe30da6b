#include "base/files.hpp"
#include "base/json.hpp"
#include "checkpoint/container.hpp"
#include "support/catch.hpp"
#include "train/debug/numerics_guard.hpp"
#include "train/debug/tensor_stats.hpp"
#include "train/fake_run.hpp"
#include "train/state/saved_state.hpp"
#include "train/state/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>

using namespace trainctl;
using train::Numerics;

namespace {

/// Its weights overflow float32 in the first step with a huge rate; half of the inputs are dropped.
struct DroppingModel final : FakeModel {
  at::Tensor forward(const at::Tensor& inputs) override {
    if (mode == stage::RunMode::train) batches.add_(counts);
    return at::linear(at::dropout(inputs.flatten(1), 0.5, mode == stage::RunMode::train), weight,
                      bias);
  }
};

/// Trains like FakeRun, with the test's own model.
struct Diverging {
  FakeRun run;
  DroppingModel model;
  std::string message;

  void train_until_it_fails() {
    run.optimizer.parameters = {model.weight, model.bias};
    run.options.max_epochs = 3;
    const train::Session session{.model = model,
                                 .loss = run.loss,
                                 .optimizer = run.optimizer,
                                 .scheduler = run.scheduler,
                                 .metrics = run.metrics,
                                 .train = *run.train,
                                 .batch_size = run.sizes.batch,
                                 .communicator = *run.communicator,
                                 .clock = *run.clock,
                                 .emit = [](const auto&) {},
                                 .run_dir = run.folder.path()};
    train::TrainLoop loop(session, run.options);
    try {
      loop.run();
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::diverged);
      message = error.what();
    }
    REQUIRE_FALSE(message.empty());
  }

  [[nodiscard]] fs::path folder(std::int64_t step) const {
    return run.folder.path() / train::diverged_folder(step);
  }
};

/// Makes the loss infinite from call number `from` on.
void corrupt_loss(FakeRun& run, int from) {
  run.loss.after = [from](const at::Tensor& loss, int call) {
    return call >= from ? loss * std::numeric_limits<double>::infinity() : loss;
  };
}

train::RepeatedStep repeat(FakeModel& model, FakeLoss& loss, const Numerics& numerics) {
  const at::NoGradGuard guard;
  for (const auto& [name, tensor] : train::weights_of(model)) {
    for (const auto& [known, kept] : numerics.weights) {
      if (known == name) tensor.copy_(kept);
    }
  }
  model.set_mode(stage::RunMode::train);
  train::set_random_states(at::kCPU, numerics.random);
  return train::repeat_step({model, loss}, numerics.batch, {});
}

}  // namespace

TEST_CASE("summary_of: counts non-finite values and has min, max and mean of the finite ones") {
  const float inf = std::numeric_limits<float>::infinity();
  const auto summary =
      train::summary_of("x", torch::tensor({{1.0F, inf, -3.0F}, {std::nanf(""), -inf, 5.0F}}));
  CHECK(summary.nan_count == 1);
  CHECK(summary.inf_count == 2);
  CHECK(summary.min == -3);
  CHECK(summary.max == 5);
  CHECK(summary.mean == 1);
  CHECK(summary.shape == std::vector<std::int64_t>{2, 3});
  const auto none = train::summary_of("y", torch::full({2}, inf));
  CHECK(none.inf_count == 2);
  CHECK(std::isnan(none.min));
  CHECK(train::summary_of("n", torch::tensor({4, 6})).mean == 5);
}

TEST_CASE("numerics dump: tensors with non-finite values are listed first") {
  const auto bad = train::summary_of("bad", torch::full({1}, std::nan("")));
  const auto good = train::summary_of("good", torch::ones({1}));
  const auto ordered = train::offending_first({good, bad, good}, 2);
  REQUIRE(ordered.size() == 2);
  CHECK(ordered[0].name == "bad");
  CHECK(ordered[1].name == "good");
}

TEST_CASE(
    "RngSnapshot: returns the generator state before the batch without changing the generator") {
  at::manual_seed(5);
  (void)torch::randn({3});  // leaves half of a pair of normal draws
  train::RngSnapshot kept(at::kCPU);
  const auto expected = train::random_states(at::kCPU);
  const at::Tensor first = torch::rand({4});
  const auto now = train::random_states(at::kCPU);
  const auto states = kept.states();
  REQUIRE(states.size() == 1);
  CHECK(torch::equal(states[0].tensor, expected[0].tensor));
  CHECK(torch::equal(train::random_states(at::kCPU)[0].tensor, now[0].tensor));
  train::set_random_states(at::kCPU, states);
  CHECK(torch::equal(torch::rand({4}), first));
}

TEST_CASE(
    "numerics dump: contains the rows, the weights before the step and the non-finite tensors") {
  Diverging diverging;
  corrupt_loss(diverging.run, 3);
  diverging.train_until_it_fails();
  CHECK_THAT(diverging.message,
             Contains("diverged/step=000003 (repeat the step with --replay-step "));
  const Numerics numerics = train::read_numerics(diverging.folder(3) / "rank_0.part");
  CHECK(numerics.record.global_step == 3);
  CHECK(numerics.record.batch == 3);
  CHECK(numerics.record.rows == 4);
  CHECK(numerics.record.cause == "the training loss is not finite");
  CHECK(numerics.record.lr == 0.5);
  CHECK(numerics.record.weights_before);
  CHECK(numerics.record.input_shape == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(numerics.record.outputs == 3);
  CHECK_THAT(numerics.record.first, StartsWith("the loss (mul)"));
  CHECK(std::isinf(numerics.record.loss));

  // A loader with the same seed returns the same rows, and their samples have names.
  const auto loader = diverging.run.train_loader();
  loader->start_epoch(0, 3);
  const data::Batch& batch = *loader->next();
  const auto samples = loader->samples_of(batch);
  REQUIRE(numerics.samples.size() == 4);
  for (std::size_t row = 0; row < 4; ++row) {
    CHECK(numerics.samples[row].name == samples[row].name);
    CHECK(numerics.samples[row].name == "sample " + std::to_string(samples[row].index));
  }
  const auto* labels = reinterpret_cast<const std::int64_t*>(batch.fields[1].data());
  CHECK(std::equal(labels, labels + 4, numerics.batch.targets.const_data_ptr<std::int64_t>()));
  for (const auto& [name, tensor] : numerics.weights) {
    if (name == "weight") CHECK(torch::equal(tensor, diverging.model.weight.detach()));
  }
  CHECK(diverging.run.optimizer.steps == 3);
  CHECK(train::bad_rows(numerics).size() == 4);
  CHECK_THAT(train::bad_rows(numerics)[0], StartsWith("row 0, sample "));

  const std::string text =
      read_file(diverging.folder(3) / "report.txt", 1 << 20, ReadFailure::resource);
  CHECK_THAT(text, Contains("the training loss is not finite at step 3 of epoch 1") &&
                       Contains("gradient of weight") && Contains("--replay-step"));
  const Json json = Json::parse(std::ifstream(diverging.folder(3) / "report.json"));
  CHECK(json["tensors"][0]["name"] == "loss");
  CHECK(json["tensors"][0]["inf_count"] == 1);
  CHECK(json["unwritten"] == "");
}

TEST_CASE("repeat_step: a dumped step is repeated bitwise equal, including dropout") {
  Diverging diverging;
  at::manual_seed(11);
  corrupt_loss(diverging.run, 2);
  diverging.train_until_it_fails();
  const Numerics numerics = train::read_numerics(diverging.folder(2) / "rank_0.part");
  REQUIRE(numerics.record.repeated);
  at::manual_seed(99);  // the current state must not matter
  DroppingModel fresh;
  FakeLoss loss;
  corrupt_loss(diverging.run, 0);
  loss.after = diverging.run.loss.after;
  const auto again = repeat(fresh, loss, numerics);
  CHECK(train::digests_of(again) == numerics.record.digests);
  CHECK(again.first == numerics.record.first);

  Numerics other = numerics;  // other draws drop other inputs
  at::manual_seed(12);
  other.random = train::random_states(at::kCPU);
  CHECK_FALSE(train::digests_of(repeat(fresh, loss, other)) == numerics.record.digests);
}

TEST_CASE("repeat_step: weights, buffers and gradients are unchanged afterwards") {
  FakeModel model;
  model.set_mode(stage::RunMode::train);
  FakeLoss loss;
  device::DeviceBatch batch;
  batch.inputs = torch::ones({2, 1, 2, 3});
  batch.targets = torch::tensor({0, 1}, torch::kLong);
  batch.valid = batch.global_valid = 2;
  const at::Tensor kept = torch::full({3}, 7.0F);
  model.bias.mutable_grad() = kept;
  const at::Tensor weight = model.weight.detach().clone();
  const auto step = train::repeat_step({model, loss}, batch, {});
  CHECK(step.is_finite());
  CHECK(step.first.empty());
  CHECK(step.gradients.size() == 2);
  CHECK(step.layers.front().name == "bias (linear)");  // its last parameter
  CHECK(step.row_losses.mean().item<float>() == Approx(step.loss.item<float>()));
  CHECK(model.batches.item<std::int64_t>() == 0);
  CHECK(torch::equal(model.weight.detach(), weight));
  CHECK(model.bias.grad().is_same(kept));
  CHECK_FALSE(model.weight.grad().defined());
}

TEST_CASE("numerics dump: without a batch if a step made the weights non-finite") {
  FakeRun run({.samples = 4, .batch = 4, .val_samples = 8});
  run.scheduler.rate = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(run.run(), Error);
  const Numerics numerics =
      train::read_numerics(run.folder.path() / train::diverged_folder(1) / "rank_0.part");
  CHECK_FALSE(numerics.batch.inputs.defined());
  CHECK_FALSE(numerics.record.repeated);
  CHECK_THAT(numerics.record.cause, Contains("'weight' contains values that are not finite"));
}

TEST_CASE("numerics dump: a failed write does not hide the original error") {
  Diverging diverging;
  corrupt_loss(diverging.run, 1);
  std::ofstream(diverging.run.folder / "diverged") << "a file in the place of the folder";
  diverging.train_until_it_fails();
  CHECK_THAT(diverging.message, Contains("the training loss is not finite at step 1") &&
                                    Contains("the step could not be saved for --replay-step"));
}

TEST_CASE("numerics dump: no file is left if the disk space is not enough") {
  TempFolder folder;
  Numerics numerics;
  numerics.weights = {{"weight", torch::ones({100})}};
  CHECK(train::write_numerics(folder / "rank_0.part", numerics, 100) == 0U);
  CHECK_FALSE(fs::exists(folder / "rank_0.part"));
  CHECK(train::write_numerics(folder / "rank_0.part", numerics, 1 << 20) > 400U);
}

TEST_CASE("read_numerics: a damaged dump and another kind of container are errors") {
  TempFolder folder;
  Numerics numerics;
  numerics.weights = {{"weight", torch::ones({100})}};
  const fs::path path = folder / "rank_0.part";
  train::write_numerics(path, numerics, 1 << 20);
  std::string bytes = read_file(path, 1 << 20, ReadFailure::resource);
  bytes[bytes.size() - 5] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  CHECK_THROWS_AS(train::read_numerics(path), Error);
  container::write(path, {}, Json{{"schema", "trainctl.other/2"}});
  try {
    (void)train::read_numerics(path);
    FAIL("it was read");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::checkpoint);
    CHECK_THAT(error.what(), Contains("it is not the saved step of a diverged run"));
  }
}
