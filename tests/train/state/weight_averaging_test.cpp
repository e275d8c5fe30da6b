#include "train/state/weight_averaging.hpp"

#include "support/catch.hpp"
#include "train/fake_run.hpp"

#include <cmath>

using namespace trainctl;

namespace {

train::Averaging ema(double decay) { return {decay, {1}, 0}; }

/// Returns the average after the model's weight had each of `values` in turn.
double average_of(const train::Averaging& options, const std::vector<double>& values,
                  std::int64_t steps_per_epoch) {
  FakeModel model;
  train::WeightAverager averager(model, options, steps_per_epoch);
  std::int64_t step = 0;
  for (const double value : values) {
    const torch::NoGradGuard guard;
    model.weight.fill_(value);
    averager.update(++step);
  }
  averager.swap();
  return model.weight[0][0].item<double>();
}

}  // namespace

TEST_CASE("EMA: starts with the first weights and adds 1 - decay of each later one") {
  CHECK(average_of(ema(0.9), {2}, 1) == Approx(2));
  CHECK(average_of(ema(0.9), {2, 4}, 1) == Approx(0.9 * 2 + 0.1 * 4));
  CHECK(average_of(ema(0.9), {2, 4, 8}, 1) == Approx(0.9 * (0.9 * 2 + 0.1 * 4) + 0.1 * 8));
}

TEST_CASE("EMA: decay_warmup depends on the number of updates, not of steps") {
  train::Averaging warm = ema(0.9999);
  warm.decay_warmup.emplace();
  const double second = 1 - std::pow(2, -2.0 / 3);
  const double third = 1 - std::pow(3, -2.0 / 3);
  const double after_two = second * 2 + (1 - second) * 4;
  CHECK(average_of(warm, {2}, 1) == Approx(2));
  CHECK(average_of(warm, {2, 4}, 1) == Approx(after_two));
  CHECK(average_of(warm, {2, 4, 8}, 1) == Approx(third * after_two + (1 - third) * 8));
  warm.every_n_steps = {2};  // counts updates, not steps
  CHECK(average_of(warm, {1, 2, 3, 4}, 1) == Approx(after_two));
}

TEST_CASE("SWA: the average is the mean of the weights at the end of each epoch") {
  train::Averaging swa;
  CHECK(average_of(swa, {1, 2, 3, 4, 5, 9}, 2) == Approx((2 + 4 + 9) / 3.0));
  swa.every_n_steps = {1};
  CHECK(average_of(swa, {1, 2, 6}, 2) == Approx(3));
  swa.start_epoch = 1;
  CHECK(average_of(swa, {1, 2, 6, 8}, 2) == Approx(7));
}

TEST_CASE("WeightAverager: the weights are unchanged before start_epoch") {
  train::Averaging late = ema(0.9);
  late.start_epoch = 2;
  CHECK(average_of(late, {2, 4}, 2) == Approx(4));
}

TEST_CASE("WeightAverager: integer buffers are copied, and a second swap restores the model") {
  FakeModel model;
  train::WeightAverager averager(model, ema(0.9), 1);
  model.batches.fill_(7);
  averager.update(1);
  {
    const torch::NoGradGuard guard;
    model.weight.fill_(5);
  }
  model.batches.fill_(8);
  {
    const train::AveragedWeights scope(&averager);
    CHECK(averager.swapped_in());
    CHECK(model.batches.item<int>() == 7);
    CHECK(model.weight[0][1].item<float>() == Approx(0.01));
  }
  CHECK(model.batches.item<int>() == 8);
  CHECK(model.weight[0][1].item<float>() == 5);
}

TEST_CASE("EMA: the average is validated and saved, and training continues from the weights") {
  FakeRun plain;
  plain.options.max_epochs = 2;
  plain.run();
  FakeRun averaged;
  averaged.options.max_epochs = 2;
  averaged.options.averaging = ema(0.5);
  averaged.run();
  const auto of_plain = plain.all<events::EpochEnded>();
  const auto of_averaged = averaged.all<events::EpochEnded>();
  REQUIRE(of_averaged.size() == 2);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    CHECK(value_of(of_averaged[epoch], "train/loss") == value_of(of_plain[epoch], "train/loss"));
    CHECK(value_of(of_averaged[epoch], "val/loss") != value_of(of_plain[epoch], "val/loss"));
  }
  CHECK_FALSE(averaged.model.weight.equal(plain.model.weight));
}
