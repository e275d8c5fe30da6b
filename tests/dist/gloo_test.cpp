#include "base/error.hpp"
#include "dist/communicator.hpp"
#include "message_of.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <torch/types.h>

using namespace trainctl;

namespace {

/// Returns w and b of y = x * w + b, with different values on each rank.
std::vector<at::Tensor> parameters_of(int rank) {
  return {torch::full({3, 2}, 1.0 + rank, torch::requires_grad()),
          torch::full({3}, 0.5 * rank, torch::requires_grad())};
}

at::Tensor squared_loss(const std::vector<at::Tensor>& p, double input) {
  return (at::linear(torch::full({1, 2}, input), p[0], p[1]) * torch::tensor({1.0F, 2.0F, 3.0F}))
      .sum();
}

}  // namespace

TEST_CASE("make_single: collectives of a single rank leave its values unchanged") {
  const auto alone = dist::make_single();
  const at::Tensor values = torch::tensor({1.0, 2.0});
  alone->sum(values, "sum");
  alone->broadcast(values, "broadcast");
  alone->barrier("barrier");
  CHECK(torch::equal(values, torch::tensor({1.0, 2.0})));
  auto p = parameters_of(0);
  const auto sync = alone->sync_gradients(p, {});
  sync->before_forward();
  CHECK(sync->backward(squared_loss(p, 2.0)) == 0.0);
  CHECK(torch::equal(p[1].grad(), torch::tensor({1.0F, 2.0F, 3.0F})));
}

TEST_CASE("Gloo: ranks sum and broadcast through the supervisor's store") {
  const int world = GENERATE(2, 3);
  RankGroup group(world);
  std::vector<at::Tensor> sums(static_cast<std::size_t>(world));
  std::vector<at::Tensor> copies(static_cast<std::size_t>(world));
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const auto at = static_cast<std::size_t>(rank);
    sums[at] = torch::tensor({std::int64_t{1} << rank, std::int64_t{-1}});
    communicator->sum(sums[at], "sum of bits");
    copies[at] = torch::full({2}, 10.0 + rank);
    communicator->broadcast(copies[at], "copy");
    communicator->barrier("end");
  });
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    CHECK(torch::equal(sums[rank],
                       torch::tensor({(std::int64_t{1} << world) - 1, std::int64_t{-world}})));
    CHECK(torch::equal(copies[rank], torch::full({2}, 10.0)));
  }
}

TEST_CASE("Reducer: broadcasts rank 0's weights and averages gradients, also with accumulation") {
  RankGroup group(3);
  std::vector<std::vector<at::Tensor>> parameters;
  for (int rank = 0; rank < 3; ++rank) parameters.push_back(parameters_of(rank));
  std::vector<at::Tensor> first(3);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    auto& p = parameters[static_cast<std::size_t>(rank)];
    const auto sync = communicator->sync_gradients(p, {});
    for (int step = 0; step < 2; ++step) {
      for (at::Tensor& tensor : p) {
        if (tensor.grad().defined()) tensor.mutable_grad().zero_();
      }
      if (step == 1) squared_loss(p, 10.0).backward();  // accumulated, not reduced yet
      sync->before_forward();
      expect(sync->backward(squared_loss(p, 1.0 + rank)) >= 0.0, "seconds below 0");
      if (step == 0) first[static_cast<std::size_t>(rank)] = p[0].grad().clone();
    }
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const at::Tensor rows = torch::tensor({{1.0F, 1.0F}, {2.0F, 2.0F}, {3.0F, 3.0F}});
    CHECK(torch::equal(parameters[rank][0], parameters[0][0]));
    CHECK(parameters[rank][1].abs().max().item<float>() == 0.0F);
    CHECK(torch::allclose(first[rank], rows * 2.0));  // inputs 1, 2, 3
    CHECK(torch::allclose(parameters[rank][0].grad(), rows * (10.0 + 2.0)));
    CHECK(torch::equal(parameters[rank][0].grad(), parameters[0][0].grad()));
  }
}

TEST_CASE("Gloo: different parameter shapes are an error") {
  RankGroup group(2);
  const auto thrown = group.run([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    communicator->sync_gradients({torch::zeros({2 + rank, 2}, torch::requires_grad())}, {});
  });
  for (const auto& one : thrown) {
    CHECK_THAT(message_of(one, ErrorKind::config),
               Contains("rank 1 has 'number 1: Float [3, 2]' where rank 0 has 'number 1: Float "
                        "[2, 2]'"));
  }
}

TEST_CASE("Gloo: a lost rank is an error that names the collective") {
  RankGroup group(2);
  const auto thrown = group.run([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    communicator->sum(torch::ones({1}), "first sum");  // now all ranks are connected
    if (rank == 1) return;                             // leaves the group
    communicator->sum(torch::ones({1}), "sum of the losses");
  });
  CHECK_FALSE(thrown[1]);
  CHECK_THAT(message_of(thrown[0], ErrorKind::rank_failed),
             Contains("rank 0 of 2: the collective 'sum of the losses'"));
}

TEST_CASE("Gloo: a rank lost during backward is an error that names the gradients") {
  RankGroup group(2);
  const auto thrown = group.run([](int rank, std::unique_ptr<dist::Communicator> communicator) {
    auto p = parameters_of(rank);
    const auto sync = communicator->sync_gradients(p, {});
    if (rank == 1) return;
    sync->before_forward();
    sync->backward(squared_loss(p, 1.0));
  });
  CHECK_THAT(message_of(thrown[0], ErrorKind::rank_failed),
             Contains("all-reduce of the gradients"));
}

TEST_CASE("Gloo: a rank that misses a collective's timeout is a hang error") {
  // The timeout also applies to forming the group, which takes longer on a busy machine.
  std::exception_ptr thrown;
  for (const int limit_s : {1, 4, 16, 64}) {
    RankGroup group(2);
    std::atomic<bool> is_formed = false;
    std::atomic<bool> is_over = false;
    thrown = group.run(
        [&](int rank, std::unique_ptr<dist::Communicator> communicator) {
          if (rank == 0) {
            is_formed = true;
            try {
              communicator->sum(torch::ones({1}), "late");
            } catch (...) {
              is_over = true;
              throw;
            }
          }
          for (int wait = 0; rank == 1 && wait < 2000 * limit_s && !is_over; ++wait)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        },
        std::chrono::seconds(limit_s))[0];
    if (is_formed) break;
  }
  CHECK_THAT(message_of(thrown, ErrorKind::hang),
             Contains("'late'") && Contains("distributed.timeout_s"));
}

TEST_CASE("Gloo: forming a group without the other ranks times out") {
  RankGroup group(2);
  try {
    dist::make_gloo(group.options(0, std::chrono::milliseconds(200)));
    FAIL("a group was formed");
  } catch (const Error& error) {
    CHECK((error.kind() == ErrorKind::hang || error.kind() == ErrorKind::rank_failed));
  }
}
