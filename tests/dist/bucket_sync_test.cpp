#include "base/error.hpp"
#include "dist/communicator.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

using namespace trainctl;
using dist::Bucketing;

namespace {

/// Returns a separate generator, because ranks are threads and share the global one.
at::Generator generator_of(int seed) {
  return at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed));
}

/// Returns a convolution in channels-last and several linear layers, which fill several buckets.
std::vector<at::Tensor> small_net() {
  const at::Generator draws = generator_of(11);
  const auto randn = [&](at::IntArrayRef sizes) { return at::randn(sizes, draws); };
  std::vector<at::Tensor> parameters{
      randn({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast)};
  for (int layer = 0; layer < 5; ++layer) {
    parameters.push_back(randn({layer == 4 ? 3 : 16, 16}) * 0.3);
    parameters.push_back(randn({layer == 4 ? 3 : 16}) * 0.1);
  }
  for (at::Tensor& parameter : parameters) parameter.requires_grad_();
  return parameters;
}

at::Tensor loss_of(const std::vector<at::Tensor>& net, int rank, int batch) {
  const at::Tensor images = at::randn({2, 3, 4, 4}, generator_of(100 * batch + rank));
  at::Tensor values = at::conv2d(images, net[0]).flatten(1);
  for (std::size_t i = 1; i < net.size(); i += 2)
    values = at::tanh(at::linear(values, net[i], net[i + 1]));
  return (values * values).mean();
}

dist::BucketOptions small_buckets(Bucketing bucketing) {
  return {.first_bytes = 600, .cap_bytes = 2500, .bucketing = bucketing};
}

enum class Clearing { zeroed, reset };
struct Steps {
  Bucketing bucketing = Bucketing::reducer;
  int micro_batches = 1;
  Clearing clearing = Clearing::zeroed;
};

struct Trained {
  std::vector<std::vector<at::Tensor>> gradients;  // by step
  std::vector<at::Tensor> weights;
  std::string layout;
};

void clear(std::vector<at::Tensor>& net, Clearing clearing) {
  for (at::Tensor& parameter : net) {
    if (!parameter.grad().defined()) continue;
    if (clearing == Clearing::reset) {
      parameter.mutable_grad().reset();
    } else {
      parameter.mutable_grad().zero_();
    }
  }
}

Trained train_rank(int rank, dist::Communicator& communicator, const Steps& steps) {
  std::vector<at::Tensor> net = small_net();
  Trained trained;
  const auto sync = communicator.sync_gradients(net, small_buckets(steps.bucketing));
  trained.layout = sync->layout();
  for (int step = 0; step < 4; ++step) {
    clear(net, steps.clearing);
    for (int micro = 1; micro < steps.micro_batches; ++micro)
      loss_of(net, rank, 50 + step).backward();
    sync->before_forward();
    (void)sync->backward(loss_of(net, rank, step));
    const at::NoGradGuard guard;
    trained.gradients.emplace_back();
    for (at::Tensor& parameter : net) {
      trained.gradients.back().push_back(parameter.grad().clone());
      parameter.sub_(parameter.grad() * 0.5);
    }
  }
  for (const at::Tensor& parameter : net) trained.weights.push_back(parameter.detach().clone());
  return trained;
}

std::vector<Trained> train_ranks(int world, const Steps& steps) {
  std::vector<Trained> all(static_cast<std::size_t>(world));
  RankGroup group(world);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    all[static_cast<std::size_t>(rank)] = train_rank(rank, *communicator, steps);
  });
  return all;
}

void check_same_bits(const std::vector<at::Tensor>& found,
                     const std::vector<at::Tensor>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(torch::equal(found[i], expected[i]));
  }
}

void check_same_bits(const std::vector<Trained>& found, const std::vector<Trained>& expected) {
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    CAPTURE(rank);
    for (std::size_t step = 0; step < expected[rank].gradients.size(); ++step)
      check_same_bits(found[rank].gradients[step], expected[rank].gradients[step]);
    check_same_bits(found[rank].weights, expected[rank].weights);
    CHECK(found[rank].layout == expected[rank].layout);
  }
}

std::string config_error_of(const std::exception_ptr& thrown) {
  REQUIRE(thrown);
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
}

}  // namespace

TEST_CASE("bucket hooks: gradients are bitwise equal to the Reducer's on two to four ranks") {
  for (const int world : {2, 3, 4}) {
    for (const int micro_batches : {1, 3}) {
      CAPTURE(world, micro_batches);
      const auto reducer = train_ranks(world, {Bucketing::reducer, micro_batches});
      const auto own = train_ranks(world, {Bucketing::hooks, micro_batches});
      CHECK(std::count(own[0].layout.begin(), own[0].layout.end(), ',') >= 2);
      check_same_bits(own, reducer);
      check_same_bits(own.back().weights, own.front().weights);
    }
  }
}

TEST_CASE("bucket hooks: setting gradients to none gives the same result as zeroing") {
  check_same_bits(train_ranks(3, {Bucketing::hooks, 1, Clearing::reset}),
                  train_ranks(3, {Bucketing::hooks, 1, Clearing::zeroed}));
}

TEST_CASE("bucket hooks: a parameter without a gradient is an error with its name, not a hang") {
  RankGroup group(2);
  const auto thrown = group.run([](int, std::unique_ptr<dist::Communicator> communicator) {
    const std::vector<at::Tensor> p{torch::ones({2}, torch::requires_grad()),
                                    torch::ones({3}, torch::requires_grad())};
    dist::BucketOptions options;
    options.bucketing = Bucketing::hooks;
    options.names = {"fc.weight", "fc.bias"};
    const auto sync = communicator->sync_gradients(p, options);
    sync->before_forward();
    (void)sync->backward(p[0].sum());
  });
  for (const auto& one : thrown)
    CHECK_THAT(config_error_of(one), Contains("'fc.bias' got no gradient"));
}

TEST_CASE("bucket hooks: the destructor removes them, and a lost rank is an error") {
  RankGroup group(2);
  const auto thrown = group.run([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    std::vector<at::Tensor> net = small_net();
    auto sync = communicator->sync_gradients(net, small_buckets(Bucketing::hooks));
    expect(torch::autograd::impl::post_acc_grad_hooks(net[0]) != nullptr, "there is no hook");
    sync.reset();
    for (const at::Tensor& parameter : net)
      expect(torch::autograd::impl::post_acc_grad_hooks(parameter) == nullptr, "a hook stayed");
    sync = communicator->sync_gradients(net, small_buckets(Bucketing::hooks));
    if (rank == 1) return;
    sync->before_forward();
    (void)sync->backward(loss_of(net, rank, 0));
  });
  CHECK_FALSE(thrown[1]);
  try {
    REQUIRE(thrown[0]);
    std::rethrow_exception(thrown[0]);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::rank_failed);
    CHECK_THAT(error.what(), Contains("'all-reduce of the gradients'"));
  }
}

TEST_CASE("take_stats: each collective since the last call is counted once") {
  for (const Bucketing bucketing : {Bucketing::reducer, Bucketing::hooks}) {
    std::vector<dist::SyncStats> stats(3);
    std::vector<std::vector<std::int64_t>> bytes(3);
    RankGroup group(3);
    group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
      std::vector<at::Tensor> net = small_net();
      const auto sync = communicator->sync_gradients(net, small_buckets(bucketing));
      for (int step = 0; step < 3; ++step) {
        if (step == 1) (void)sync->take_stats();
        clear(net, Clearing::zeroed);
        sync->before_forward();
        (void)sync->backward(loss_of(net, rank, step));
      }
      sync->count_repeated();
      const auto at = static_cast<std::size_t>(rank);
      bytes[at] = sync->bucket_bytes();
      stats[at] = sync->take_stats();
      expect(sync->take_stats().steps == 0, "steps were counted twice");
    });
    std::int64_t payload = 0;
    for (const at::Tensor& parameter : small_net()) payload += parameter.numel() * 4;
    const std::int64_t steps =
        bucketing == Bucketing::hooks ? 3 : 2;  // the Reducer does not count a replay
    for (std::size_t rank = 0; rank < 3; ++rank) {
      CHECK(stats[rank].steps == steps);
      CHECK(stats[rank].payload_bytes == steps * payload);
      CHECK(stats[rank].wire_bytes == steps * (payload * 4 / 3));
      CHECK(stats[rank].overlapped_s >= 0);
      CHECK(stats[rank].exposed_s > 0);
      CHECK(bytes[rank].size() >= 3);
      CHECK(std::accumulate(bytes[rank].begin(), bytes[rank].end(), std::int64_t{0}) == payload);
    }
  }
}

TEST_CASE("GradSync: a single rank creates no Reducer, no hooks and no buckets") {
  const auto alone = dist::make_single();
  std::vector<at::Tensor> net = small_net();
  const auto sync = alone->sync_gradients(net, {});
  for (const at::Tensor& parameter : net) {
    // A Reducer or a hook would keep the gradient accumulator alive.
    CHECK(torch::autograd::impl::try_get_grad_accumulator(parameter) == nullptr);
    CHECK(torch::autograd::impl::post_acc_grad_hooks(parameter) == nullptr);
    CHECK_FALSE(parameter.grad().defined());
  }
  sync->before_forward();
  (void)sync->backward(loss_of(net, 0, 0));
  CHECK(sync->layout().empty());
  CHECK(sync->bucket_bytes().empty());
  CHECK(sync->take_stats().steps == 0);
  RankGroup group(1);  // for comparison, because a group creates them
  group.run_all([](int, std::unique_ptr<dist::Communicator> communicator) {
    const std::vector<at::Tensor> watched = small_net();
    const auto reducer = communicator->sync_gradients(watched, {});
    expect(torch::autograd::impl::try_get_grad_accumulator(watched[0]) != nullptr,
           "the Reducer is not seen");
  });
}
