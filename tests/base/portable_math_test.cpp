#include "base/random.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstring>

using namespace trainctl;

namespace {

bool close(double a, double b) { return std::abs(a - b) <= 4e-15 * std::max(1.0, std::abs(b)); }

std::uint64_t bits(double x) {
  std::uint64_t out = 0;
  std::memcpy(&out, &x, sizeof out);
  return out;
}

}  // namespace

TEST_CASE("portable math: the functions agree with libm") {
  for (double x = -40; x < 40; x += 0.0371) {
    CHECK(std::abs(portable_exp(x) / std::exp(x) - 1) < 1e-14);
    CHECK(close(portable_log(std::exp(x)), std::log(std::exp(x))));
  }
  for (double degrees = -900; degrees < 900; degrees += 0.7) {
    const double radians = degrees * std::acos(-1.0) / 180;
    CHECK(close(sin_cos_degrees(degrees).sin, std::sin(radians)));
    CHECK(close(sin_cos_degrees(degrees).cos, std::cos(radians)));
  }
}

TEST_CASE("portable math: right angles are exact, and exp saturates at zero and infinity") {
  CHECK(sin_cos_degrees(90).cos == 0);
  CHECK(sin_cos_degrees(-90).sin == -1);
  CHECK(sin_cos_degrees(180).cos == -1);
  CHECK(sin_cos_degrees(270).sin == -1);
  CHECK(portable_exp(0) == 1);
  CHECK(portable_exp(-1e9) == 0);
  CHECK(std::isinf(portable_exp(1e9)));
  CHECK(portable_log(1) == 0);
}

TEST_CASE("portable math: the results have the same bits on every machine") {
  CHECK(bits(portable_exp(0.1)) == 0x3ff1aec7b35a00d4);
  CHECK(bits(portable_log(0.3)) == 0xbff34378fcbda721);
  CHECK(bits(sin_cos_degrees(33).sin) == 0x3fe16daed770771d);
  CHECK(bits(sin_cos_degrees(33).cos) == 0x3fead663a8ae2fdc);
}
