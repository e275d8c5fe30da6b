#include "stage/checkpoint.hpp"
#include "stage/forward_context.hpp"
#include "stages/model/blocks/batch_norm.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <torch/types.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

using namespace trainctl;
using stages::BatchNorm2d;

namespace {

constexpr std::int64_t kChannels = 3;

class Sum final : public stage::RankSum {
 public:
  explicit Sum(dist::Communicator& communicator) : communicator_(communicator) {}
  void add(const at::Tensor& tensor) override { communicator_.sum(tensor, "norms"); }

 private:
  dist::Communicator& communicator_;
};

BatchNorm2d layer() {
  BatchNorm2d norm;
  norm.weight = torch::tensor({0.5F, 1.0F, -2.0F}).requires_grad_();
  norm.bias = torch::tensor({0.1F, -0.3F, 0.7F}).requires_grad_();
  norm.running_mean = torch::zeros({kChannels});
  norm.running_var = torch::ones({kChannels});
  norm.num_batches_tracked = torch::zeros({}, torch::kLong);
  return norm;
}

/// One channel is far from 0, where a plain sum of squares would lose precision.
at::Tensor rows(std::int64_t first, std::int64_t count) {
  const at::Tensor all =
      (torch::arange(11 * kChannels * 4, torch::kFloat) * 0.91).sin().view({11, kChannels, 2, 2});
  return (all + torch::tensor({0.0F, 50.0F, -3.0F}).view({1, kChannels, 1, 1}))
      .narrow(0, first, count)
      .clone();
}

at::Tensor targets(std::int64_t first, std::int64_t count) {
  return (torch::arange(11 * kChannels * 4, torch::kFloat) * 0.53)
      .cos()
      .view({11, kChannels, 2, 2})
      .narrow(0, first, count);
}

struct Found {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient, mean, var;
  std::int64_t batches = 0;
};

/// Runs the layer in training and differentiates the sum of output times target over the rows.
Found run_layer(const BatchNorm2d& norm, std::int64_t first, std::int64_t count, bool counts) {
  const at::Tensor x = rows(first, count).requires_grad_();
  Found found;
  found.output = norm(x, stage::RunMode::train);
  (found.output * targets(first, count) * (counts ? 1.0 : 0.0)).sum().backward();
  found.input_gradient = x.grad();
  found.weight_gradient = norm.weight.grad();
  found.bias_gradient = norm.bias.grad();
  found.mean = norm.running_mean;
  found.var = norm.running_var;
  found.batches = norm.num_batches_tracked.item<std::int64_t>();
  return found;
}

struct Share {
  std::int64_t first, count;
  bool counts = true;
};

std::vector<Found> run_ranks(const std::vector<Share>& shares) {
  std::vector<Found> all(shares.size());
  RankGroup group(static_cast<int>(shares.size()));
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    Sum sum(*communicator);
    const auto at = static_cast<std::size_t>(rank);
    const Share& share = shares[at];
    const stage::BatchOfRanksScope scope({&sum, share.counts});
    all[at] = run_layer(layer(), share.first, share.count, share.counts);
  });
  return all;
}

bool close(const at::Tensor& a, const at::Tensor& b) { return torch::allclose(a, b, 1e-5, 1e-4); }

}  // namespace

TEST_CASE("sync batch norm: ranks with unequal batches normalize like one rank with all rows") {
  const Found whole = run_layer(layer(), 0, 7, true);
  const std::vector<Share> shares{{0, 4}, {4, 2}, {6, 1}};
  const auto ranks = run_ranks(shares);
  at::Tensor weight = torch::zeros({kChannels});
  at::Tensor bias = torch::zeros({kChannels});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    INFO("rank " << rank);
    const Share& share = shares[rank];
    const Found& own = ranks[rank];
    CHECK(close(own.output, whole.output.narrow(0, share.first, share.count)));
    CHECK(close(own.input_gradient, whole.input_gradient.narrow(0, share.first, share.count)));
    weight += own.weight_gradient;
    bias += own.bias_gradient;
    CHECK(torch::allclose(own.mean, whole.mean, 1e-5, 1e-5));
    CHECK(torch::allclose(own.var, whole.var, 1e-5, 1e-5));
    CHECK(torch::equal(own.mean, ranks[0].mean));  // all ranks keep rank 0's
    CHECK(torch::equal(own.var, ranks[0].var));
    CHECK(own.batches == 1);
  }
  CHECK(close(weight, whole.weight_gradient));
  CHECK(close(bias, whole.bias_gradient));
}

TEST_CASE("sync batch norm: padding rows count neither in statistics nor in gradients") {
  const Found whole = run_layer(layer(), 0, 4, true);
  const auto ranks = run_ranks({{0, 4, true}, {7, 1, false}});
  CHECK(close(ranks[0].output, whole.output));
  CHECK(close(ranks[0].input_gradient, whole.input_gradient));
  CHECK(torch::equal(ranks[1].mean, ranks[0].mean));
  CHECK(ranks[1].input_gradient.abs().max().item<float>() == 0.0F);
  CHECK(ranks[1].weight_gradient.abs().max().item<float>() == 0.0F);
}

TEST_CASE("sync batch norm: evaluation and frozen layers do not communicate") {
  class Never final : public stage::RankSum {
   public:
    void add(const at::Tensor&) override { throw std::runtime_error("communicated"); }
  } never;
  const stage::BatchOfRanksScope scope({&never, true});
  const BatchNorm2d norm = layer();
  CHECK_NOTHROW(norm(rows(0, 2), stage::RunMode::evaluate));
  CHECK_THROWS_WITH(norm(rows(0, 2), stage::RunMode::train), "communicated");
  norm.weight.set_requires_grad(false);
  CHECK_THROWS_WITH(norm(rows(0, 2), stage::RunMode::train), "communicated");
  norm.bias.set_requires_grad(false);
  CHECK_NOTHROW(norm(rows(0, 2), stage::RunMode::train));
}

TEST_CASE("sync batch norm: one image per rank is enough, but a single one in total is an error") {
  /// Sums as if every rank had the same values.
  class EqualRanks final : public stage::RankSum {
   public:
    explicit EqualRanks(double ranks) : ranks_(ranks) {}
    void add(const at::Tensor& tensor) override { tensor.mul_(ranks_); }

   private:
    double ranks_;
  };
  const at::Tensor pixel = rows(0, 1).narrow(2, 0, 1).narrow(3, 0, 1);
  EqualRanks two(2);
  const stage::BatchOfRanksScope of_two({&two, true});
  CHECK_NOTHROW(layer()(pixel, stage::RunMode::train));
  EqualRanks one(1);
  const stage::BatchOfRanksScope of_one({&one, true});
  CHECK_THROWS_WITH(layer()(pixel, stage::RunMode::train), Contains("loader.drop_last=true"));
}

TEST_CASE("sync batch norm: recomputed layers reduce over the ranks of their forward pass") {
  const BatchNorm2d norm = layer();
  int sums = 0;
  class Count final : public stage::RankSum {
   public:
    explicit Count(int& sums) : sums_(sums) {}
    void add(const at::Tensor&) override { ++sums_; }

   private:
    int& sums_;
  } count(sums);
  const at::Tensor x = rows(0, 4).requires_grad_();
  at::Tensor y;
  {
    const stage::BatchOfRanksScope scope({&count, true});
    y = trainctl::stage::checkpoint(
        [&](const at::Tensor& in) { return norm(in, stage::RunMode::train); }, x);
  }
  CHECK(sums == 1);
  y.sum().backward();
  CHECK(sums == 3);  // one sum of the recomputed statistics, one of the gradients
  CHECK(norm.num_batches_tracked.item<std::int64_t>() == 1);
}
