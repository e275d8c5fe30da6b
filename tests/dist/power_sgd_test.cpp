#include "dist/power_sgd.hpp"

#include "support/catch.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

/// Returns random values, so that every matrix has full rank.
at::Tensor noise(std::vector<std::int64_t> shape, int seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed)));
}

/// Returns a 24 x 20 matrix of rank `rank`.
at::Tensor of_rank(std::int64_t rank, int seed) {
  return noise({24, rank}, 10 * seed + 1).mm(noise({rank, 20}, 10 * seed + 2));
}

/// The bucket of one rank: a matrix, a convolution and a bias.
struct Bucket {
  explicit Bucket(std::int64_t rank)
      : sgd({{"fc.weight", torch::zeros({24, 20})},
             {"conv.weight", torch::zeros({32, 4, 3, 3})},
             {"fc.bias", torch::zeros({24})}},
            rank) {}

  void exchange(const std::vector<at::Tensor>& gradients) {
    sgd.first(gradients, 1);
    sgd.second(1);
    sgd.finish(sgd.sound());
  }

  [[nodiscard]] at::Tensor kept(const std::string& name) const {
    std::vector<dist::SyncTensor> all;
    sgd.add_state(all);
    for (const dist::SyncTensor& each : all) {
      if (each.name == name) return each.tensor;
    }
    throw std::runtime_error("there is no state " + name);
  }

  dist::PowerSgdBucket sgd;
};

std::vector<at::Tensor> gradients(int seed, std::int64_t rank = 20) {
  return {of_rank(rank, seed), noise({32, 4, 3, 3}, 10 * seed + 3), noise({24}, 10 * seed + 4)};
}

}  // namespace

TEST_CASE(
    "orthonormalize: columns become orthonormal, and linearly dependent columns become zero") {
  const at::Tensor matrix = noise({50, 4}, 1);
  matrix.select(1, 2).copy_(matrix.select(1, 0) * 3 - matrix.select(1, 1));
  dist::orthonormalize(matrix);
  at::Tensor expected = torch::eye(4);
  expected[2][2] = 0;
  CHECK(torch::allclose(matrix.t().mm(matrix), expected, 0, 1e-5));
  CHECK(matrix.select(1, 2).abs().max().item<float>() == 0.0F);
  for (const double size : {1e-12, 1e12}) {
    const at::Tensor scaled = noise({50, 2}, 1) * size;
    dist::orthonormalize(scaled);
    CHECK(torch::allclose(scaled.t().mm(scaled), torch::eye(2), 0, 1e-5));
  }
  const at::Tensor nothing = torch::zeros({5, 2});
  dist::orthonormalize(nothing);
  CHECK(torch::equal(nothing, torch::zeros({5, 2})));
}

TEST_CASE("PowerSGD: a gradient of lower rank than powersgd_rank is reproduced") {
  Bucket bucket(4);
  for (int step = 0; step < 3; ++step) {
    const auto given = gradients(step, 3);
    auto taken = given;
    for (at::Tensor& tensor : taken) tensor = tensor.clone();
    bucket.exchange(taken);
    CHECK(torch::allclose(taken[0], given[0], 1e-4, 1e-3));
    CHECK(torch::equal(taken[2], given[2]));  // vectors are not compressed
  }
  CHECK(bucket.kept("fc.weight.error").abs().max().item<float>() < 1e-3F);
}

TEST_CASE("PowerSGD: output plus error equals the input") {
  Bucket bucket(2);
  at::Tensor in = torch::zeros({24, 20});
  at::Tensor out = torch::zeros({24, 20});
  for (int step = 0; step < 8; ++step) {
    auto taken = gradients(step);
    in += taken[0];
    bucket.exchange(taken);
    out += taken[0];
    const at::Tensor kept = bucket.kept("fc.weight.error");
    CHECK(kept.abs().max().item<float>() > 1e-3F);  // there is an error
    CHECK(torch::allclose(out + kept, in, 1e-4, 1e-3));
  }
}

TEST_CASE("PowerSGD: a constant gradient is approximated better at each step") {
  Bucket bucket(2);
  const at::Tensor gradient = of_rank(20, 7);
  const auto lost = [&] {
    bucket.kept("fc.weight.error").zero_();
    auto taken = gradients(0);
    taken[0] = gradient.clone();
    bucket.exchange(taken);
    return (taken[0] - gradient).norm().item<double>();
  };
  const double first = lost();
  double last = 0;
  for (int step = 0; step < 6; ++step) last = lost();
  const at::Tensor singular = std::get<1>(torch::linalg_svd(gradient));
  const double least = singular.slice(0, 2).norm().item<double>();
  CHECK(last < first);
  CHECK(last < least * 1.05 + 1e-4);  // near the best rank-2 error
}

TEST_CASE("PowerSGD: a column that became zero is restored") {
  Bucket bucket(3);
  bucket.exchange({torch::zeros({24, 20}), torch::zeros({32, 4, 3, 3}), torch::zeros({24})});
  CHECK(bucket.kept("fc.weight.q").abs().max().item<float>() == 0.0F);
  auto taken = gradients(0, 3);
  const at::Tensor given = taken[0].clone();
  bucket.exchange(taken);
  CHECK(torch::allclose(taken[0], given, 1e-4, 1e-3));
}

TEST_CASE("PowerSGD: a non-finite gradient invalidates the step but not the state") {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Bucket bucket(2);
    bucket.exchange(gradients(1));
    const at::Tensor error = bucket.kept("fc.weight.error").clone();
    const at::Tensor q = bucket.kept("fc.weight.q").clone();
    auto non_finite = gradients(2);
    non_finite[0][3][4] = bad;
    bucket.exchange(non_finite);
    CHECK_FALSE(non_finite[0].isfinite().all().item<bool>());
    CHECK(torch::equal(bucket.kept("fc.weight.error"), error));
    CHECK(torch::equal(bucket.kept("fc.weight.q"), q));
    auto sound = gradients(3);
    bucket.exchange(sound);
    CHECK(sound[0].isfinite().all().item<bool>());
  }
}

TEST_CASE("PowerSGD: the result does not depend on the memory format") {
  Bucket rows(2), channels_last(2);
  for (int step = 0; step < 3; ++step) {
    auto taken = gradients(step);
    auto other = gradients(step);
    other[1] = other[1].contiguous(at::MemoryFormat::ChannelsLast);
    rows.exchange(taken);
    channels_last.exchange(other);
    CHECK(torch::equal(other[1], taken[1]));
    CHECK(torch::equal(channels_last.kept("conv.weight.error"), rows.kept("conv.weight.error")));
  }
}

TEST_CASE("PowerSGD: matrices smaller than their factors are averaged uncompressed") {
  dist::PowerSgdBucket bucket({{"thin", torch::zeros({3, 100})}, {"scalar", torch::zeros({})}}, 2);
  CHECK_FALSE(bucket.has_second());
  const at::Tensor thin = noise({3, 100}, 1);
  const at::Tensor scalar = torch::tensor(4.0F);
  bucket.first({thin, scalar}, 2);
  bucket.second(2);
  bucket.finish(bucket.sound());
  CHECK(torch::equal(thin, noise({3, 100}, 1) / 2));
  CHECK(scalar.item<float>() == 2.0F);
}
