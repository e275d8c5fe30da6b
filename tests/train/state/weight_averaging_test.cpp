#include "train/state/weight_averaging.hpp"

#include "device/kernels.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"
#include "train/fake_run.hpp"

#include <ATen/Context.h>

#include <cmath>
#include <string>
#include <vector>

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

namespace {

struct TensorModel final : stage::Model {
  std::vector<stage::NamedTensor> tensors;

  at::Tensor forward(const at::Tensor& inputs) override { return inputs; }
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override { return tensors; }
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override { return {}; }
  void set_mode(stage::RunMode /*mode*/) override {}
  void to(at::Device /*device*/) override {}
};

/// Returns the averages of tensors of several sizes after three updates.
std::vector<at::Tensor> averages_on(at::Device device, double decay) {
  at::manual_seed(11);
  TensorModel model;
  for (const std::int64_t size : {1, 3, 4, 1000, 16384, 40001})
    model.tensors.push_back({std::to_string(size), at::randn({size}).to(device)});
  model.tensors.push_back({"double", at::randn({5}, at::kDouble).to(device)});
  model.tensors.push_back({"transposed", at::randn({8, 6}).to(device).t()});
  train::WeightAverager averager(model, ema(decay), 1);
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (const auto& [name, tensor] : model.tensors) tensor.copy_(at::randn(tensor.sizes()));
    averager.update(step);
  }
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : averager.state()) all.push_back(tensor.cpu());
  return all;
}

}  // namespace

TEST_CASE("average_weights_on_host: equals torch.lerp for any share and length") {
  at::manual_seed(12);
  for (const float share : {0.0F, 0.1F, 0.7F, 1.0F}) {
    for (const std::int64_t count : {1, 4, 31, 257}) {
      INFO(count << " numbers, share " << share);
      const at::Tensor average = at::randn({count});
      const at::Tensor weight = at::randn({count});
      const at::Tensor expected = at::lerp(average, weight, share);
      const device::AverageChunk chunk{average.mutable_data_ptr<float>(),
                                       weight.const_data_ptr<float>(), count};
      device::average_weights_on_host({&chunk, 1, share});
      CHECK(mismatch(average, expected) == "");
    }
  }
}

TEST_CASE("EMA: the GPU kernel gives the averages of the CPU", "[gpu][kernels]") {
  if (!at::globalContext().hasCUDA() || !device::kernels_built()) skip("no GPU, or no kernels");
  for (const double decay : {0.9, 0.3}) {
    const std::vector<at::Tensor> expected = averages_on(at::kCPU, decay);
    const std::vector<at::Tensor> found = averages_on(at::kCUDA, decay);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("tensor " << i);
      CHECK(mismatch(found[i], expected[i]) == "");
    }
  }
}
