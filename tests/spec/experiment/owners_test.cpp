#include "spec/experiment/distributed.hpp"
#include "support/catch.hpp"

using namespace trainctl::spec;

TEST_CASE(
    "owners_of: assigns the largest parameter first, each to the rank with the fewest bytes") {
  const std::vector<std::int64_t> bytes{4, 40, 12, 28, 8};
  CHECK(owners_of(bytes, 2) == std::vector<int>{1, 0, 1, 1, 0});
  CHECK(largest_share(bytes, 2) == 48);
  CHECK(largest_share(bytes, 1) == 92);
}

TEST_CASE("largest_share: is at least the largest parameter, for any number of ranks") {
  const std::vector<std::int64_t> bytes{4, 40, 12};
  CHECK(owners_of(bytes, 1 << 20) == std::vector<int>{2, 0, 1});
  CHECK(largest_share(bytes, 1 << 20) == 40);
  CHECK(owners_of({}, 4).empty());
  CHECK(largest_share({}, 4) == 0);
}
