#include "spec/experiment/distributed.hpp"
#include "support/catch.hpp"

using namespace trainctl::spec;

TEST_CASE("a parameter goes whole to the rank that has least, the largest first") {
  const std::vector<std::int64_t> bytes{4, 40, 12, 28, 8};
  CHECK(owners_of(bytes, 2) == std::vector<int>{1, 0, 1, 1, 0});
  CHECK(largest_share(bytes, 2) == 48);
  CHECK(largest_share(bytes, 1) == 92);
}

TEST_CASE("the largest parameter bounds the largest share, however many ranks there are") {
  const std::vector<std::int64_t> bytes{4, 40, 12};
  CHECK(owners_of(bytes, 1 << 20) == std::vector<int>{2, 0, 1});
  CHECK(largest_share(bytes, 1 << 20) == 40);
  CHECK(owners_of({}, 4).empty());
  CHECK(largest_share({}, 4) == 0);
}
