#include "base/error.hpp"
#include "support/catch.hpp"
#include "train/state/saved_state.hpp"

#include <torch/types.h>

#include <vector>

using namespace trainctl;

TEST_CASE("RNG state: random numbers are the same after the state is restored") {
  at::manual_seed(5);
  (void)torch::randn({3});  // leaves half of a pair of normal draws
  const auto states = train::random_states(at::kCPU);
  const auto draws = [] {
    return std::vector<at::Tensor>{torch::dropout(torch::ones({1000}), 0.5, true),
                                   torch::randn({7}), torch::randperm(50),
                                   torch::empty({5}, torch::kDouble).uniform_()};
  };
  const auto first = draws();
  const auto others = draws();
  CHECK_FALSE(torch::equal(first[0], others[0]));
  train::set_random_states(at::kCPU, states);
  const auto again = draws();
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(torch::equal(again[i], first[i]));
}

TEST_CASE("RNG state: an invalid state is an error") {
  const auto states = train::random_states(at::kCPU);
  REQUIRE(states.size() == 1);
  CHECK(states[0].name == "cpu");
  CHECK_THROWS_WITH(
      train::set_random_states(at::kCPU, {}),
      Contains("the states of 0 random number generators were saved, but this run needs 1"));
  CHECK_THROWS_WITH(train::set_random_states(at::kCPU, {{"cuda", states[0].tensor}}),
                    Contains("from 'cuda', but this run needs those of 'cpu'"));
  for (const at::Tensor& bad : {states[0].tensor.slice(0, 1), states[0].tensor.to(torch::kInt)}) {
    CHECK_THROWS_AS(train::set_random_states(at::kCPU, {{"cpu", bad}}), Error);
  }
}
