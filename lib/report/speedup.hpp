#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace trainctl::report {

struct Interval {
  double low = 0;
  double high = 0;
};

/// How many times as fast `other` is as `base`; nothing where no pair of repeats can be compared.
struct Speedup {
  std::optional<double> value;   // median of the paired ratios
  std::optional<Interval> ci95;  // of that median; needs 3 pairs
  std::size_t pairs = 0;
};

/// Repeats are paired in their order: interleaved rounds put the i-th repeats of two rows next to
/// each other, so that a slow minute of the machine slows both. A pair with a time that is not
/// above 0 and finite is left out. The interval is the percentile bootstrap of the median (Efron &
/// Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13) with 10,000 resamples of a
/// fixed seed: the same times give the same interval. With few repeats it is close to the range of
/// the ratios.
Speedup speedup(std::span<const double> base_s, std::span<const double> other_s);

}  // namespace trainctl::report
