#pragma once

namespace trainctl::data {

/// To the nearest whole number, halves to the even one, as torch's round(): for |x| below 2^22.
/// Additions alone, so that loops become vectors.
inline float round_half_even(float x) {
  constexpr float kShift = 0x1.8p23F;
  return (x + kShift) - kShift;
}

}  // namespace trainctl::data
