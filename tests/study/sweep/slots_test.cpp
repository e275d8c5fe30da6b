#include "study/sweep/run_starter.hpp"
#include "support/catch.hpp"

#include <limits>

using namespace trainctl::study;

namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();
using Cores = std::vector<int>;
using Gpus = std::vector<std::string>;

}  // namespace

TEST_CASE("Slots: a single run gets all cores and GPUs") {
  Slots slots(1, {0, 1, 2, 3}, kNoQuota, {"0", "1"});
  const Share share = slots.take(1);
  CHECK(share.cores.empty());
  CHECK(share.gpus.empty());
}

TEST_CASE("Slots: concurrent runs have separate cores") {
  Slots slots(2, {4, 5, 6, 7, 8}, kNoQuota, {});
  const Share first = slots.take(0);
  const Share second = slots.take(0);
  CHECK(first.cores == Cores{4, 5});
  CHECK(second.cores == Cores{6, 7});
  slots.give_back(first);
  CHECK(slots.take(0).cores == Cores{4, 5});
}

TEST_CASE("Slots: more runs than cores share the cores and the quota") {
  Slots crowded(3, {0, 1}, kNoQuota, {});
  CHECK(crowded.take(0).cores == Cores{0});
  CHECK(crowded.take(0).cores == Cores{1});
  CHECK(crowded.take(0).cores == Cores{0});
  Slots limited(2, {0, 1, 2, 3, 4, 5, 6, 7}, 2.5, {});
  CHECK(limited.take(0).cores == Cores{0});
  CHECK(limited.take(0).cores == Cores{4});
}

TEST_CASE("Slots: a run gets the GPUs with the fewest runs and returns them at its end") {
  Slots slots(4, {}, kNoQuota, {"0", "1", "2"});
  CHECK(slots.take(1).gpus == Gpus{"0"});
  const Share two = slots.take(2);
  CHECK(two.gpus == Gpus{"1", "2"});
  const Share shared = slots.take(1);
  CHECK(shared.gpus == Gpus{"0"});
  slots.give_back(two);
  CHECK(slots.take(2).gpus == Gpus{"1", "2"});
  slots.give_back(shared);
  CHECK(slots.take(0).gpus.empty());
}
