#pragma once

#include <cmath>
#include <cstdint>

namespace trainctl::data {

/// The value of an IEEE half.
inline float half_to_float(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  float value = 0;
  if (exponent == 31)
    value = mantissa == 0 ? INFINITY : NAN;
  else
    value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                          : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return (half & 0x8000) != 0 ? -value : value;
}

}  // namespace trainctl::data
