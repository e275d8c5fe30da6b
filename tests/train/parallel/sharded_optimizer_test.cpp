#include "train/parallel/sharded_optimizer.hpp"

#include "spec/experiment/distributed.hpp"
#include "support/catch.hpp"
#include "support/noted_communicator.hpp"
#include "support/rank_group.hpp"
#include "train/fake_run.hpp"
#include "train/parallel/local_sgd.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

std::vector<stage::NamedTensor> of_sizes(const std::vector<std::int64_t>& sizes) {
  std::vector<stage::NamedTensor> all;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    all.push_back({"p" + std::to_string(i), torch::zeros({sizes[i]})});
  return all;
}

/// Returns large and small parameters of two dtypes, one with another memory order and one with
/// gaps.
std::vector<stage::NamedTensor> of_all_kinds() {
  std::vector<stage::NamedTensor> all = of_sizes({200, 3, 5, 9, 2, 1, 7, 4, 25});
  all.push_back({"double", torch::zeros({6}, torch::kDouble)});
  all.push_back(
      {"channels last", torch::zeros({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast)});
  all.push_back({"gaps", torch::zeros({5, 12}).narrow(1, 0, 10)});
  all.push_back({"scalar", torch::zeros({})});
  all.push_back({"nothing", torch::zeros({0, 3})});
  for (std::size_t i = 0; i < all.size(); ++i) {
    at::Tensor& tensor = all[i].tensor;
    tensor.mutable_grad() = torch::empty_like(tensor);
    const at::Tensor values = torch::arange(tensor.numel(), torch::kDouble).view(tensor.sizes());
    tensor.mutable_grad().copy_(values + static_cast<double>(i));
  }
  return all;
}

}  // namespace

TEST_CASE(
    "ZeRO-1: parameters are assigned in descending size to the rank with the smallest share") {
  CHECK(train::owners_of(of_sizes({1, 10, 3, 7, 2}), 2) == std::vector<int>{1, 0, 1, 1, 0});
  CHECK(train::owners_of(of_sizes({4, 4, 4}), 3) == std::vector<int>{0, 1, 2});
  CHECK(train::owners_of(of_sizes({4}), 3) == std::vector<int>{0});
  CHECK(train::owners_of(of_sizes({5, 6}), 1) == std::vector<int>{0, 0});
  CHECK(train::owned_by({0, 1, 0}, 0) == std::vector<bool>{true, false, true});
}

TEST_CASE("ZeRO-1: the shards have similar sizes") {
  const auto parameters = of_sizes({900, 30, 512, 512, 64, 700, 12, 300, 300, 9, 128, 450});
  for (const int world : {2, 3, 4}) {
    const auto owners = train::owners_of(parameters, world);
    std::vector<std::int64_t> owned(static_cast<std::size_t>(world), 0);
    std::int64_t all = 0;
    for (std::size_t i = 0; i < owners.size(); ++i) {
      owned[static_cast<std::size_t>(owners[i])] += parameters[i].tensor.numel();
      all += parameters[i].tensor.numel();
    }
    std::vector<std::int64_t> bytes;
    for (const stage::NamedTensor& parameter : parameters)
      bytes.push_back(static_cast<std::int64_t>(parameter.tensor.nbytes()));
    CHECK(spec::owners_of(bytes, world) == owners);
    CHECK(spec::largest_share(bytes, world) == 4 * *std::ranges::max_element(owned));
    const auto most = static_cast<double>(*std::ranges::max_element(owned));
    CHECK(most < 1.3 * static_cast<double>(all) / world);
  }
}

TEST_CASE("ShardedOptimizer: zero_grad clears the gradients of all parameters, not only its own") {
  FakeModel model;
  auto inner = std::make_unique<FakeSgd>();
  inner->parameters = {model.bias};
  const auto alone = dist::make_single();
  train::ShardedOptimizer optimizer(std::move(inner), model.parameters(), *alone, {1024});
  model.weight.mutable_grad() = torch::ones({3, 6});
  model.bias.mutable_grad() = torch::ones({3});
  const at::Tensor gradient = model.weight.grad();
  optimizer.zero_grad();
  CHECK(gradient.abs().max().item<float>() == 0.0F);  // in place
  CHECK(model.bias.grad().abs().max().item<float>() == 0.0F);
  model.weight.mutable_grad().reset();
  CHECK_NOTHROW(optimizer.zero_grad());
}

TEST_CASE("ShardedOptimizer: all ranks receive the updates with any buffer size") {
  using Exchange = train::ShardedOptimizer::Exchange;
  const auto exchange = GENERATE(Exchange::broadcasts, Exchange::all_gathers);
  for (const std::size_t cap : {std::size_t{64}, std::size_t{128}, std::size_t{1} << 20}) {
    RankGroup group(3);
    group.run_all([&](int rank, std::unique_ptr<dist::Communicator> gloo) {
      std::vector<std::string> exchanges;
      NotedCommunicator communicator(std::move(gloo), exchanges);
      const auto parameters = of_all_kinds();
      const auto owned = train::owned_by(train::owners_of(parameters, 3), rank);
      auto inner = std::make_unique<FakeSgd>();
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        if (owned[i]) inner->parameters.push_back(parameters[i].tensor);
      }
      train::ShardedOptimizer optimizer(std::move(inner), parameters, communicator,
                                        {cap, exchange});
      for (int step = 1; step <= 2; ++step) {
        optimizer.step();
        for (const auto& [name, tensor] : parameters)
          expect(torch::equal(tensor, tensor.grad() * (-0.5 * step)), name.c_str());
      }
      std::int64_t bytes = 0;
      for (const auto& [name, tensor] : parameters)
        bytes += static_cast<std::int64_t>(tensor.nbytes());
      const dist::SyncStats stats = optimizer.take_stats();
      expect(stats.payload_bytes == 2 * bytes, "all parameters in each step");
      expect(stats.wire_bytes == 2 * (bytes * 2 / 3), "a third of two copies");
      expect(optimizer.take_stats().payload_bytes == 0, "bytes were reported twice");
      optimizer.count_repeated();
      expect(optimizer.take_stats().payload_bytes == bytes, "a replayed step counts");
      const bool gathers = exchange == Exchange::all_gathers;
      const auto found = std::ranges::count(exchanges, std::string("all-gather of the weights"));
      expect((found > 0) == gathers, "weights are gathered");
      expect(cap < std::size_t{1} << 20 || exchanges.size() == (gathers ? 2 : 6),
             "in each step one collective, or one for each rank");
    });
  }
}

TEST_CASE(
    "FlatTensors: buffers hold one dtype up to their cap, and scatter copies the values back") {
  const at::Tensor first = torch::arange(6, torch::kFloat).view({2, 3}).t();  // not contiguous
  const at::Tensor second = torch::arange(5, torch::kDouble);
  const at::Tensor third = torch::full({4}, 7.0F);
  const at::Tensor large = torch::full({100}, 8.0F);
  const train::FlatTensors flat({first, second, torch::zeros({0}), third, large}, 44);
  REQUIRE(flat.size() == 3);
  CHECK(flat.flat(0).numel() == 10);
  CHECK(flat.flat(1).scalar_type() == at::kDouble);
  CHECK(flat.flat(2).numel() == 100);
  const std::vector<at::Tensor> before{first.clone(), second.clone(), large.clone()};
  for (std::size_t part = 0; part < flat.size(); ++part) {
    flat.gather(part);
    flat.flat(part).mul_(2);
    flat.scatter(part);
  }
  CHECK(torch::equal(first, before[0] * 2));
  CHECK(torch::equal(second, before[1] * 2));
  CHECK(torch::equal(large, before[2] * 2));
}
