#include "spec/experiment/value_types.hpp"
#include "support/catch.hpp"

using trainctl::spec::parse_duration;

TEST_CASE("parse_duration: accepts DD:HH:MM:SS like Lightning", "[spec]") {
  CHECK(parse_duration("00:12:00:00") == 12 * 3600.0);
  CHECK(parse_duration("01:02:03:04") == 86400.0 + 2 * 3600 + 3 * 60 + 4);
  CHECK(parse_duration("30:00:00") == 30 * 3600.0);
}

TEST_CASE("parse_duration: accepts numbers with units, the largest unit first", "[spec]") {
  CHECK(parse_duration("90s") == 90.0);
  CHECK(parse_duration("30m") == 1800.0);
  CHECK(parse_duration("1h30m") == 5400.0);
  CHECK(parse_duration("1.5d") == 1.5 * 86400);
}

TEST_CASE("parse_duration: rejects other text", "[spec]") {
  for (const char* text :
       {"", "soon", "90", "0s", "-5m", "5 m", "30m1h", "1h1h", "00:00:00:00", "00:24:00:00",
        "00:00:60:00", "1:2", "1:2:3:4:5", "12h:00", "999999d", "1e3s", ".s", "::", "+1:00:00"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_duration(text).has_value());
  }
}
