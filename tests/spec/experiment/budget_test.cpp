#include "spec/experiment/value_types.hpp"
#include "support/catch.hpp"

using namespace trainctl::spec;

TEST_CASE("parse_budget: accepts a percentage or a size with a unit", "[spec]") {
  CHECK(parse_budget("50%") == Budget{.share = 0.5});
  CHECK(parse_budget("12.5%") == Budget{.share = 0.125});
  CHECK(parse_budget("8GiB") == Budget{.bytes = 8ULL << 30});
  CHECK(parse_budget("8 GiB") == Budget{.bytes = 8ULL << 30});
  CHECK(parse_budget("1.5MB") == Budget{.bytes = 1'500'000});
  CHECK(parse_budget("200GB") == Budget{.bytes = 200'000'000'000});
  CHECK(parse_budget("4096B") == Budget{.bytes = 4096});
  CHECK(parse_budget("50%")->of(1000) == 500);
  CHECK(parse_budget("2KiB")->of(1000) == 2048);
}

TEST_CASE("parse_budget: rejects other text", "[spec]") {
  for (const char* text : {"", "8", "%", "0%", "101%", "-1GiB", "GiB", "8gib", "8 G", "8GiB ",
                           "1e3MB", "0.1B", "nan%", "99999999999TiB", "1.2.3MB", "50%%"}) {
    CAPTURE(text);
    CHECK(!parse_budget(text));
  }
}

TEST_CASE("budget: its text survives a round trip", "[spec]") {
  for (const char* text : {"50%", "12.5%", "8GiB", "3MB", "1536KiB", "4097B", "200GB"}) {
    CHECK(to_text(*parse_budget(text)) == text);
  }
}
