#include "base/numbers.hpp"

#include "support/catch.hpp"

#include <cstdint>

using namespace trainctl;

TEST_CASE("parse_number: the whole text must be a number within range") {
  CHECK(parse_number<int>("12") == 12);
  CHECK(parse_number<int>("-3") == -3);
  CHECK(parse_number<double>("1e3") == 1000.0);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x1", "99999999999"})
    CHECK_FALSE(parse_number<int>(text));
  CHECK_FALSE(parse_number<std::uint64_t>("-1"));
}

TEST_CASE("counted: the word is plural unless the number is 1") {
  CHECK(counted(1, "step") == "1 step");
  CHECK(counted(0, "step") == "0 steps");
  CHECK(counted(1200, "batch", "batches") == "1,200 batches");
  CHECK(counted(1, "sample is", "samples are") == "1 sample is");
  CHECK(std::string("thread") + plural(std::size_t{2}) == "threads");
}
