#include "base/error.hpp"
#include "dist/communicator.hpp"
#include "message_of.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;
using dist::Compression;

namespace {

constexpr int kWorld = 3;

/// Returns random values, so that every matrix has full rank.
at::Tensor normal_noise(at::IntArrayRef shape, std::size_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed));
}

using Tensors = std::vector<at::Tensor>;

Tensors network() {
  return {normal_noise({40, 30}, 1).requires_grad_(), normal_noise({40}, 2).requires_grad_(),
          normal_noise({16, 40}, 3).requires_grad_()};
}

/// Returns the gradient that compressed_loss() gives for parameter i.
at::Tensor gradient(const Tensors& p, std::size_t i, int rank, int step) {
  return normal_noise(p[i].sizes(), 1000 + 100 * i + static_cast<std::size_t>(10 * rank + step));
}

at::Tensor compressed_loss(const Tensors& p, int rank, int step) {
  at::Tensor loss = torch::zeros({});
  for (std::size_t i = 0; i < p.size(); ++i)
    loss = loss + (p[i] * gradient(p, i, rank, step)).sum();
  return loss;
}

at::Tensor mean_gradient(const Tensors& p, std::size_t i, int step) {
  at::Tensor sum = torch::zeros_like(p[i]);
  for (int rank = 0; rank < kWorld; ++rank) sum = sum + gradient(p, i, rank, step);
  return sum.detach() / kWorld;
}

void clear_gradients(const Tensors& p) {
  for (const at::Tensor& tensor : p) {
    if (tensor.grad().defined()) tensor.mutable_grad().zero_();
  }
}

void step_once(dist::GradSync& sync, const Tensors& p, int rank, int step) {
  clear_gradients(p);
  sync.before_forward();
  sync.backward(compressed_loss(p, rank, step));
}

Tensors gradients_of(const Tensors& p) {
  Tensors all;
  for (const at::Tensor& tensor : p) all.push_back(tensor.grad().clone());
  return all;
}

dist::BucketOptions options_of(Compression compression) {
  dist::BucketOptions options;
  options.first_bytes = options.cap_bytes = 4096;  // several buckets
  options.compression = compression;
  options.powersgd_rank = 2;
  options.names = {"a.weight", "a.bias", "b.weight"};
  return options;
}

/// Returns [rank][step][parameter].
std::vector<std::vector<Tensors>> exchanged(Compression compression, int steps) {
  std::vector<std::vector<Tensors>> all(kWorld);
  RankGroup group(kWorld);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const Tensors p = network();
    const auto sync = communicator->sync_gradients(p, options_of(compression));
    for (int step = 0; step < steps; ++step) {
      step_once(*sync, p, rank, step);
      all[static_cast<std::size_t>(rank)].push_back(gradients_of(p));
    }
  });
  return all;
}

}  // namespace

TEST_CASE("gradient compression: 16-bit gradients are averaged and equal on all ranks") {
  const Tensors p = network();
  for (const auto& [compression, tolerance] :
       {std::pair(Compression::none, 1e-5), std::pair(Compression::fp16, 4e-3),
        std::pair(Compression::bf16, 4e-2)}) {
    const auto ranks = exchanged(compression, 2);
    for (std::size_t step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < p.size(); ++i) {
        CHECK(torch::allclose(ranks[0][step][i], mean_gradient(p, i, static_cast<int>(step)), 0,
                              tolerance));
        CHECK(torch::equal(ranks[1][step][i], ranks[0][step][i]));
        CHECK(torch::equal(ranks[2][step][i], ranks[0][step][i]));
      }
    }
    const bool rounds = !torch::allclose(ranks[0][0][0], mean_gradient(p, 0, 0), 0, 1e-5);
    CHECK(rounds == (compression != Compression::none));
  }
}

TEST_CASE(
    "PowerSGD: gradients are equal on all ranks, and output plus mean error equals the input") {
  const int steps = 4;
  std::vector<std::vector<Tensors>> ranks(kWorld);
  std::vector<at::Tensor> errors(kWorld);
  RankGroup group(kWorld);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const Tensors p = network();
    const auto sync = communicator->sync_gradients(p, options_of(Compression::powersgd));
    const auto at = static_cast<std::size_t>(rank);
    for (int step = 0; step < steps; ++step) {
      step_once(*sync, p, rank, step);
      ranks[at].push_back(gradients_of(p));
    }
    for (const dist::SyncTensor& kept : sync->state()) {
      if (kept.name == "a.weight.error") errors[at] = kept.tensor.clone();
    }
  });
  const Tensors p = network();
  at::Tensor in = torch::zeros({40, 30});
  at::Tensor out = torch::zeros({40, 30});
  for (int step = 0; step < steps; ++step) {
    const auto s = static_cast<std::size_t>(step);
    in += mean_gradient(p, 0, step);
    out += ranks[0][s][0];
    for (std::size_t i = 0; i < p.size(); ++i) {
      CHECK(torch::equal(ranks[1][s][i], ranks[0][s][i]));
      CHECK(torch::equal(ranks[2][s][i], ranks[0][s][i]));
    }
    CHECK(torch::allclose(ranks[0][s][1], mean_gradient(p, 1, step), 1e-5, 1e-5));  // a vector
  }
  const at::Tensor mean_error = (errors[0] + errors[1] + errors[2]) / kWorld;
  CHECK(mean_error.abs().max().item<float>() > 1e-3F);
  CHECK(torch::allclose(out + mean_error, in, 1e-4, 1e-3));
}

TEST_CASE("PowerSGD: a non-finite vector leaves the errors of all buckets unchanged") {
  RankGroup group(2);
  group.run_all([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const Tensors p = network();
    const auto sync = communicator->sync_gradients(p, options_of(Compression::powersgd));
    expect(sync->bucket_bytes().size() >= 2, "several buckets");
    step_once(*sync, p, rank, 0);
    Tensors before;
    for (const dist::SyncTensor& kept : sync->state()) before.push_back(kept.tensor.clone());
    clear_gradients(p);
    sync->before_forward();
    at::Tensor loss = compressed_loss(p, rank, 1);
    if (rank == 1) loss = loss + (p[1] * std::numeric_limits<float>::quiet_NaN()).sum();
    sync->backward(loss);
    expect(!p[1].grad().isfinite().any().item<bool>(), "the step is invalid");
    const auto after = sync->state();
    for (std::size_t i = 0; i < before.size(); ++i)
      expect(torch::equal(after[i].tensor, before[i]), after[i].name.c_str());
    step_once(*sync, p, rank, 2);
    for (const at::Tensor& each : p) expect(each.grad().isfinite().all().item<bool>(), "finite");
  });
}

TEST_CASE("PowerSGD: training with a restored state is bitwise equal") {
  std::vector<std::vector<Tensors>> whole = exchanged(Compression::powersgd, 5);
  RankGroup group(kWorld);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const Tensors p = network();
    std::vector<dist::SyncTensor> kept;
    {
      const auto first = communicator->sync_gradients(p, options_of(Compression::powersgd));
      for (int step = 0; step < 3; ++step) step_once(*first, p, rank, step);
      for (const auto& each : first->state())
        kept.push_back({each.name, each.tensor.clone(), each.of_rank});
    }
    const Tensors fresh = network();
    const auto second = communicator->sync_gradients(fresh, options_of(Compression::powersgd));
    const auto taken = second->state();
    expect(taken.size() == kept.size() && kept.size() == 4, "q and error of two matrices");
    for (std::size_t i = 0; i < kept.size(); ++i) taken[i].tensor.copy_(kept[i].tensor);
    for (int step = 3; step < 5; ++step) {
      step_once(*second, fresh, rank, step);
      const Tensors found = gradients_of(fresh);
      const Tensors& expected =
          whole[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step)];
      for (std::size_t i = 0; i < found.size(); ++i)
        expect(torch::equal(found[i], expected[i]), "the gradients differ");
    }
  });
}

TEST_CASE("gradient compression: bf16 buckets take two bytes per element for every dtype") {
  RankGroup group(2);
  group.run_all([](int, std::unique_ptr<dist::Communicator> communicator) {
    Tensors p = network();
    p.push_back(torch::zeros({7}, torch::dtype(at::kDouble).requires_grad(true)));
    std::int64_t numbers = 0, bytes = 0;
    for (const at::Tensor& each : p) numbers += each.numel();
    dist::BucketOptions options = options_of(Compression::bf16);
    options.names.push_back("double");
    const auto sync = communicator->sync_gradients(p, options);
    for (const std::int64_t each : sync->bucket_bytes()) bytes += each;
    expect(bytes == 2 * numbers, "two bytes per element");
  });
}

TEST_CASE("gradient compression: every element of a large bf16 bucket is averaged") {
  RankGroup group(2);
  group.run_all([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const Tensors p{normal_noise({300, 333}, 1).requires_grad_(),
                    normal_noise({77}, 2).requires_grad_()};
    dist::BucketOptions options;
    options.compression = Compression::bf16;
    const auto sync = communicator->sync_gradients(p, options);
    sync->before_forward();
    sync->backward(compressed_loss(p, rank, 0));
    for (std::size_t i = 0; i < p.size(); ++i) {
      const at::Tensor mean = (gradient(p, i, 0, 0) + gradient(p, i, 1, 0)) / 2;
      expect(torch::allclose(p[i].grad(), mean, 0, 4e-2), "every element is averaged");
    }
  });
}

TEST_CASE(
    "GradSync: with exchanges=false, ranks start from rank 0's weights and keep their gradients") {
  std::vector<Tensors> found(2);
  RankGroup group(2);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const Tensors p = network();
    if (rank == 1) p[0].data().add_(1);
    dist::BucketOptions options;
    options.exchanges = false;
    const auto sync = communicator->sync_gradients(p, options);
    expect(torch::equal(p[0], network()[0]), "the weights are not rank 0's");
    expect(sync->layout().empty(), "there are no buckets");
    step_once(*sync, p, rank, 0);
    found[static_cast<std::size_t>(rank)] = gradients_of(p);
  });
  for (int rank = 0; rank < 2; ++rank)
    CHECK(torch::equal(found[static_cast<std::size_t>(rank)][0], gradient(network(), 0, rank, 0)));
}

TEST_CASE("GradSync: the first step with unused parameters is an error that names them") {
  RankGroup group(2);
  const auto thrown = group.run([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const Tensors p = network();
    const auto sync = communicator->sync_gradients(p, options_of(Compression::none));
    step_once(*sync, p, rank, 0);
    clear_gradients(p);
    sync->before_forward();
    sync->backward((p[2] * 2).sum());
  });
  for (const std::exception_ptr& each : thrown) {
    CHECK_THAT(
        message_of(each, ErrorKind::config),
        Contains("the loss does not depend on 'a.weight', 'a.bias', which got no gradient") &&
            Contains("distributed.find_unused_parameters=true"));
  }
}

TEST_CASE(
    "GradSync: a parameter unused on one rank is an error there and rank_failed on the others") {
  RankGroup group(2);
  const auto thrown = group.run([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const Tensors p = network();
    const auto sync = communicator->sync_gradients(p, options_of(Compression::none));
    sync->before_forward();
    sync->backward(rank == 0 ? compressed_loss(p, rank, 0) : (p[2] * 2).sum());
  });
  CHECK_THAT(message_of(thrown[0], ErrorKind::rank_failed),
             Contains("all-reduce of the gradients"));
  CHECK_THAT(message_of(thrown[1], ErrorKind::config), Contains("'a.weight'"));
}

TEST_CASE("find_unused: unused parameters contribute zeros") {
  for (const Compression compression : {Compression::none, Compression::bf16}) {
    RankGroup group(2);
    group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
      const Tensors p = network();
      dist::BucketOptions options = options_of(compression);
      options.find_unused = true;
      const auto sync = communicator->sync_gradients(p, options);
      for (int step = 0; step < 3; ++step) {
        clear_gradients(p);
        sync->before_forward();
        at::Tensor loss = (p[2] * 2).sum();
        if (rank == 0) loss = loss + (p[0] * 4).sum();
        sync->backward(loss);
        expect(torch::equal(p[0].grad(), torch::full({40, 30}, 2.0F)), "half of rank 0's");
        expect(torch::equal(p[2].grad(), torch::full({16, 40}, 2.0F)), "the average");
        expect(!p[1].grad().defined(), "an unused parameter has no gradient");
      }
    });
  }
}

TEST_CASE("start_all_gather: each rank's part may be in the result, with several in progress") {
  RankGroup group(kWorld);
  group.run_all([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    Tensors values;
    std::vector<dist::Pending> in_progress;
    for (int round = 0; round < 2; ++round) {
      values.push_back(torch::zeros({kWorld, 5}));
      const at::Tensor mine = values.back()[rank].fill_(rank + 10 * round);
      in_progress.push_back(communicator->start_all_gather(values.back().flatten(), mine, "share"));
    }
    for (int round = 0; round < 2; ++round) {
      const auto at = static_cast<std::size_t>(round);
      in_progress[at]();
      for (int other = 0; other < kWorld; ++other)
        expect(values[at][other].eq(other + 10 * round).all().item<bool>(), "the part of a rank");
    }
  });
}

TEST_CASE("start_broadcast: every rank can be the root, with several broadcasts in progress") {
  RankGroup group(kWorld);
  group.run_all([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    Tensors values;
    std::vector<dist::Pending> in_progress;
    for (int root = 0; root < kWorld; ++root) {
      values.push_back(torch::full({5}, rank == root ? 10.0F + static_cast<float>(root) : 0.0F));
      in_progress.push_back(communicator->start_broadcast(values.back(), root, "share"));
    }
    for (int root = 0; root < kWorld; ++root) {
      const auto at = static_cast<std::size_t>(root);
      in_progress[at]();
      expect(torch::equal(values[at], torch::full({5}, 10.0F + static_cast<float>(root))),
             "the root's values");
    }
  });
}
