#include "train/parallel/data_parallel.hpp"

#include "support/catch.hpp"
#include "train/fake_run.hpp"

#include <ATen/Context.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

using namespace trainctl;

namespace {

/// A model with weights that a replica must not use.
std::unique_ptr<FakeModel> other_weights(at::Device device) {
  auto model = std::make_unique<FakeModel>();
  model->weight = torch::full({3, 6}, 9.0, device).requires_grad_();
  model->bias = torch::full({3}, 9.0, device).requires_grad_();
  model->batches = torch::zeros({}, torch::TensorOptions(torch::kLong).device(device));
  return model;
}

/// A model on several devices, whose parts stay visible.
struct Divided {
  FakeModel* model = nullptr;
  std::vector<FakeModel*> replicas;
  std::unique_ptr<train::DataParallelModel> all;

  explicit Divided(const std::vector<at::Device>& devices) {
    auto first = std::make_unique<FakeModel>();
    first->weight = first->weight.detach().to(devices.front()).requires_grad_();
    first->bias = first->bias.detach().to(devices.front()).requires_grad_();
    first->batches = first->batches.to(devices.front());
    model = first.get();
    std::vector<std::unique_ptr<stage::Model>> others;
    for (std::size_t i = 1; i < devices.size(); ++i) {
      auto other = other_weights(devices[i]);
      replicas.push_back(other.get());
      others.push_back(std::move(other));
    }
    all = std::make_unique<train::DataParallelModel>(std::move(first), std::move(others), devices);
  }
};

at::Tensor rows_of(std::int64_t count) {
  return torch::arange(count * 6, torch::kFloat).view({count, 1, 2, 3}).mul(0.1).sin();
}

/// Trains for some steps, and checks that all weights equal those of a single model.
void check_training(const std::vector<at::Device>& devices) {
  FakeModel alone;
  const Divided divided(devices);
  for (const std::int64_t rows : {7, 8, 1, 7}) {
    const at::Tensor inputs = rows_of(rows);
    const at::Tensor targets = torch::arange(rows, torch::kLong).remainder(3);
    torch::cross_entropy_loss(alone.forward(inputs), targets).backward();
    const at::Tensor outputs = divided.all->forward(inputs.to(devices.front()));
    CHECK(outputs.device() == devices.front());
    torch::cross_entropy_loss(outputs, targets.to(devices.front())).backward();
    const torch::NoGradGuard guard;
    for (FakeModel* one : {&alone, divided.model}) {
      for (const auto& [name, parameter] : one->parameters()) {
        parameter.sub_(parameter.grad(), 0.5);
        parameter.mutable_grad().reset();
      }
    }
    CHECK(torch::allclose(alone.weight, divided.model->weight.cpu(), 1e-5, 1e-6));
    CHECK(torch::allclose(alone.bias, divided.model->bias.cpu(), 1e-5, 1e-6));
  }
}

}  // namespace

TEST_CASE("DataParallelModel: weights equal those of one model, whatever the number of rows") {
  check_training({at::kCPU, at::kCPU, at::kCPU});
  check_training({at::kCPU});
}

TEST_CASE("DataParallelModel: gradients of accumulated batches add up in the model") {
  FakeModel alone;
  const Divided divided({at::kCPU, at::kCPU});
  for (int batch = 0; batch < 2; ++batch) {
    alone.forward(rows_of(6)).square().sum().backward();
    divided.all->forward(rows_of(6)).square().sum().backward();
  }
  CHECK(torch::allclose(alone.weight.grad(), divided.model->weight.grad(), 1e-5, 1e-5));
  CHECK_FALSE(divided.replicas[0]->weight.is_leaf());
}

TEST_CASE("DataParallelModel: parameters, buffers and mode are those of the first device") {
  const Divided divided({at::kCPU, at::kCPU, at::kCPU});
  CHECK(divided.all->parameters()[0].tensor.is_same(divided.model->weight));
  CHECK(divided.all->buffers()[0].tensor.is_same(divided.model->batches));
  divided.all->set_mode(stage::RunMode::train);
  for (int batch = 0; batch < 2; ++batch) (void)divided.all->forward(rows_of(9));
  CHECK(divided.model->batches.item<std::int64_t>() == 2);
  CHECK(divided.replicas[1]->batches.item<std::int64_t>() == 2);  // 1 copied, 1 counted
  CHECK(divided.replicas[1]->mode == stage::RunMode::train);
  CHECK(divided.replicas[1]->rows == 3);
}

TEST_CASE("DataParallelModel: a forward pass without gradients uses the current weights") {
  const Divided divided({at::kCPU, at::kCPU});
  (void)divided.all->forward(rows_of(4));  // its graph must not stay in the replica
  const torch::NoGradGuard guard;
  divided.model->weight.mul_(2);
  const at::Tensor outputs = divided.all->forward(rows_of(4));
  CHECK_FALSE(outputs.requires_grad());
  CHECK(torch::allclose(outputs, divided.model->forward(rows_of(4)), 1e-5, 1e-6));
}

TEST_CASE("DataParallelModel: two GPUs train like one CPU", "[gpu]") {
  if (!at::globalContext().hasCUDA() || torch::cuda::device_count() < 2) skip("fewer than 2 GPUs");
  check_training({at::Device(at::kCUDA, 0), at::Device(at::kCUDA, 1)});
}
