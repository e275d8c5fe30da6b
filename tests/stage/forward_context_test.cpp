#include "stage/forward_context.hpp"

#include "support/catch.hpp"

#include <torch/types.h>

#include <array>

using namespace trainctl;

namespace {

std::int64_t value_of(const at::Tensor& counter) { return counter.item<std::int64_t>(); }

}  // namespace

TEST_CASE("CounterScope: counters are incremented together at its end, and alone without it") {
  std::array<at::Tensor, 3> counters;
  for (at::Tensor& counter : counters) counter = torch::zeros({}, torch::kLong);
  stage::increment(counters[0]);
  CHECK(value_of(counters[0]) == 1);
  {
    const stage::CounterScope scope;
    for (const at::Tensor& counter : counters) stage::increment(counter);
    CHECK(value_of(counters[1]) == 0);
    stage::increment(counters[2]);  // a layer that is used twice
    scope.add();
    scope.add();  // nothing is left
  }
  CHECK(value_of(counters[0]) == 2);
  CHECK(value_of(counters[1]) == 1);
  CHECK(value_of(counters[2]) == 2);
  {
    const stage::CounterScope thrown;
    stage::increment(counters[1]);
  }
  const stage::CounterScope next;
  next.add();
  CHECK(value_of(counters[1]) == 1);
}
