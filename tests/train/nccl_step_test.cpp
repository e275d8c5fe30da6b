#include "device/device.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <ATen/Context.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

using namespace trainctl;
using dist::Bucketing;

// Tests NCCL on one GPU: with world size 1 its collectives are real calls.

namespace {

const at::Device kGpu(at::kCUDA, 0);

std::unique_ptr<dist::Communicator> world_of_one(RankGroup& group) {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  if (dist::nccl_version().empty()) skip("a build without NCCL");
  return dist::make_nccl(group.options(0, std::chrono::seconds(120)), kGpu);
}

struct Product {
  at::Tensor weight = torch::full({4, 4}, 0.5, kGpu).requires_grad_();
  at::Tensor inputs = torch::ones({2, 4}, kGpu);

  [[nodiscard]] at::Tensor loss() const {
    const at::Tensor outputs = at::matmul(inputs, weight);
    return (outputs * outputs).sum();
  }
};

}  // namespace

TEST_CASE("NCCL: all_reduce, broadcast and all_gather with world size 1 keep the values", "[gpu]") {
  RankGroup group(1);
  const auto communicator = world_of_one(group);
  const at::Tensor on_gpu = torch::full({3}, 2.0, kGpu);
  const at::Tensor on_host = torch::full({3}, 3.0);
  communicator->sum(on_gpu, "sum");
  communicator->sum(on_host, "sum of the host");
  communicator->broadcast(on_host, "copy");
  communicator->barrier("barrier");
  CHECK(torch::equal(on_gpu.cpu(), torch::full({3}, 2.0)));
  CHECK(torch::equal(on_host, torch::full({3}, 3.0)));
  const auto all = communicator->all_gather(on_host, "gather");
  REQUIRE(all.size() == 1);
  CHECK(torch::equal(all[0], on_host));
}

TEST_CASE("NCCL: gradients equal those of a single rank, with either kind of buckets", "[gpu]") {
  RankGroup group(1);
  const auto communicator = world_of_one(group);
  Product alone;
  alone.loss().backward();
  for (const Bucketing bucketing : {Bucketing::reducer, Bucketing::hooks}) {
    const Product product;
    const auto sync = communicator->sync_gradients({product.weight}, {.bucketing = bucketing});
    for (int step = 0; step < 12; ++step) {
      if (product.weight.grad().defined()) product.weight.mutable_grad().zero_();
      sync->before_forward();
      CHECK(sync->backward(product.loss()) >= 0);
    }
    CHECK(torch::equal(product.weight.grad(), alone.weight.grad()));
    CHECK(sync->take_stats().steps == 12);
  }
}

TEST_CASE("NCCL: a step with gradient synchronization is captured in a CUDA graph and replayed",
          "[gpu]") {
  RankGroup group(1);
  const auto communicator = world_of_one(group);
  const Product product;
  const auto sync = communicator->sync_gradients({product.weight}, {.bucketing = Bucketing::hooks});
  const auto step = [&] {
    product.weight.mutable_grad().zero_();
    sync->before_forward();
    (void)sync->backward(product.loss());
  };
  const auto graph = device::make_step_graph(kGpu);
  for (int warm_up = 0; warm_up < 3; ++warm_up) graph->warm_up(step);
  const at::Tensor eager = product.weight.grad().clone();
  const std::size_t recorded = graph->record(step);
  product.inputs.fill_(2);
  graph->replay(recorded);
  CHECK(torch::equal(product.weight.grad(), eager * 4));
}

TEST_CASE("NCCL: the batches of an accumulated step are captured separately and replayed",
          "[gpu]") {
  RankGroup group(1);
  const auto communicator = world_of_one(group);
  const Product product;
  const auto sync = communicator->sync_gradients({product.weight}, {.bucketing = Bucketing::hooks});
  const auto first = [&] {
    product.weight.mutable_grad().zero_();
    product.loss().backward();
  };
  const auto middle = [&] { product.loss().backward(); };
  const auto last = [&] {
    sync->before_forward();
    (void)sync->backward(product.loss());
  };
  const std::vector<device::StepGraph::Work> batches{first, middle, last};
  const auto graph = device::make_step_graph(kGpu);
  for (int warm_up = 0; warm_up < 3; ++warm_up) {
    for (const auto& batch : batches) graph->warm_up(batch);
  }
  const at::Tensor eager = product.weight.grad().clone();
  std::vector<std::size_t> recorded;
  for (const auto& batch : batches) recorded.push_back(graph->record(batch));
  for (const std::size_t one : recorded) graph->replay(one);
  CHECK(torch::equal(product.weight.grad(), eager));
  product.inputs.fill_(2);
  for (const std::size_t one : {recorded[0], recorded[1], recorded[1], recorded[2]})
    graph->replay(one);
  CHECK(torch::allclose(product.weight.grad(), eager * 4 * 4 / 3));
}

TEST_CASE("NCCL: a sum of the host is read later, and the group shuts down or aborts", "[gpu]") {
  for (const bool succeeds : {true, false}) {
    RankGroup group(1);
    const auto communicator = world_of_one(group);
    const at::Tensor flags = torch::full({4}, 3, torch::kInt);
    const dist::Pending read = communicator->start_sum(flags, "requests");
    auto graph = device::make_step_graph(kGpu);
    const at::Tensor values = torch::ones({8}, kGpu);
    const auto step = [&] { communicator->sum(values, "sum"); };
    for (int warm_up = 0; warm_up < 3; ++warm_up) graph->warm_up(step);
    graph->replay(graph->record(step));
    read();
    CHECK(torch::equal(flags, torch::full({4}, 3, torch::kInt)));
    graph.reset();
    if (succeeds) communicator->shutdown();
    communicator->abort();
    CHECK_NOTHROW(torch::cuda::synchronize());  // nothing is pending
  }
}
