#include "base/random.hpp"
#include "base/strings.hpp"
#include "support/catch.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

using namespace trainctl;

namespace {

/// Compares bits: NaN equals itself, and 0 differs from -0.
bool round_trips(std::uint64_t bits) {
  const std::optional<double> read = exact_double(exact_text(std::bit_cast<double>(bits)));
  return read && std::bit_cast<std::uint64_t>(*read) == bits;
}

}  // namespace

TEST_CASE("exact_text: every double round-trips bitwise") {
  using Limits = std::numeric_limits<double>;
  for (const double value :
       {0.0, -0.0, 0.1, -1.0 / 3, Limits::max(), Limits::lowest(), Limits::min(),
        Limits::denorm_min(), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
        -Limits::quiet_NaN(), std::nextafter(1.0, 2.0)}) {
    INFO(exact_text(value));
    CHECK(round_trips(std::bit_cast<std::uint64_t>(value)));
  }
  CHECK(round_trips(0x7ff0000000000001U));  // this NaN has a payload
  CounterRng draw(5, 0, 0, 0);
  int mismatches = 0;
  for (int i = 0; i < 20000; ++i) mismatches += round_trips(draw.next_u64()) ? 0 : 1;
  CHECK(mismatches == 0);
}

TEST_CASE("exact_double: a text that exact_text does not write is rejected") {
  for (const std::string text : {"", " 1p+0", "1p+0 ", "0x1p+0", "1p+99999", "nan", "nan:", "nan:0",
                                 "nan:7ff0000000000000", "nan:xyz", "one"}) {
    INFO(text);
    CHECK_FALSE(exact_double(text).has_value());
  }
}
