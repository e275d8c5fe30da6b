#pragma once

#include "base/json.hpp"
#include "base/statistics.hpp"

#include <cstddef>
#include <string>

namespace trainctl::report {

struct Interval {
  double low = 0;
  double high = 0;
};

/// Returns the smallest interval that contains all finite values; low > high if there are no
/// values.
Interval extent_of(std::span<const double> values);

/// What is compared: other / base (times, rates, memory), or other - base (fractions).
enum class Scale { ratio, difference };

/// The noise of one side of a comparison.
struct SideNoise {
  double deviation = 0;   // standard deviation of a repeat; of the logarithm for a ratio
  std::size_t count = 0;  // number of repeats
};

/// The change between two numbers over the repeats of both.
struct Change {
  std::optional<double> value;       // 1 (ratio) or 0 (difference): no change
  std::optional<Interval> interval;  // of `value`; absent: the noise is unknown
  double noise = 0;                  // standard deviation of one pair; of the logarithm for a ratio
  double df = 0;                     // degrees of freedom of the noise; 0: unknown
  std::size_t repeats = 0;           // pairs; for unpaired repeats the smaller number of both sides
  std::size_t outliers = 0;          // pairs or repeats that were dropped
  bool apart = false;                // the sides are not paired; their noise is in the next fields
  SideNoise base_side = {};
  SideNoise now_side = {};
};

/// The minimum number of pairs for an interval: with two pairs there is one degree of freedom, and
/// the interval is too wide to be useful.
inline constexpr std::size_t kFewestPairs = 3;

/// Pairs the repeats in order: interleaved rounds place the i-th repeats of two rows next to each
/// other, so that a slow minute of the machine slows both and cancels in their ratio. The value is
/// the mean of the pairs (the geometric mean for ratios), the interval is Student's t of their
/// logarithms or differences ("Student", "The probable error of a mean", Biometrika 6, 1908);
/// docs/adr/0015-t-of-log-ratios.md explains why it is not the bootstrap. For ratios, pairs with a
/// number that is not positive and finite are left out; for differences, those with one that is not
/// finite. Among 4 to 20 ratios at most one outlier is dropped: a value whose Student's t distance
/// from the others is exceeded by n values in only `(1 - level) * 0.4 / n` of all samples. This
/// makes the interval miss the true value at most a tenth more often: 5.2 % instead of 4.9 % of
/// null benches fail a gate of six conditions.
Change paired_change(std::span<const double> base, std::span<const double> other, Scale scale,
                     double level = 0.95);

/// Compares repeats that were made at different times, such as a bench and a file of another day,
/// with Welch's interval (Biometrika 34, 1947). At most one outlier per side is dropped, as above.
/// If one side is a single run, it is assumed to have the noise of the other side.
Change unpaired_change(std::span<const double> base, std::span<const double> other, Scale scale,
                       double level = 0.95);

/// How many times as fast `other` is as `base`; absent if no pair of repeats can be compared.
struct Speedup {
  std::optional<double> value;        // geometric mean of the paired ratios
  std::optional<Interval> ci95 = {};  // of that mean; needs 3 pairs
  std::size_t pairs = 0;
};

/// Pairs the repeats in order, see paired_change(). A pair with a time that is not positive and
/// finite is left out.
Speedup speedup(std::span<const double> base_s, std::span<const double> other_s);
/// Returns a text such as "1.85x [1.70, 1.99]"; "-" if nothing could be compared.
std::string gain_text(const Speedup& gain);

/// A mean and the confidence interval of the true mean.
struct MeanInterval {
  std::size_t count = 0;                 // number of finite values
  std::optional<double> mean = {};       // absent: no values
  std::optional<double> deviation = {};  // sample standard deviation; needs two values
  std::optional<Interval> ci95 = {};     // Student's t for normal values; needs two values
};

/// Ignores values that are not finite.
MeanInterval mean_interval(std::span<const double> values);

/// Returns the interval of `values` minus `base`, pair by pair; pairs with a value that is not
/// finite are left out.
MeanInterval paired_interval(std::span<const double> base, std::span<const double> values);

/// The difference between the means of `other` and `base`.
struct MeanDifference {
  double base = 0;  // means
  double other = 0;
  double difference = 0;              // other - base
  std::optional<Interval> ci95 = {};  // of the difference; needs two values on each side
  bool paired = false;
};

/// Returns Student's interval of the differences of pairs; both sides must have the same size.
MeanDifference paired_difference(std::span<const double> base, std::span<const double> other);
/// Returns Welch's interval for independent values.
MeanDifference unpaired_difference(std::span<const double> base, std::span<const double> other);

/// How much the time of identical work varies on this machine, and the smallest slowdown that a
/// comparison can detect.
struct Noise {
  int repeats = 0;
  double median_s = 0;
  double variation = 0;  // standard deviation of the logarithms, about the coefficient of variation
  double slowdown_5 = 0;   // smallest that 5 paired repeats detect with 90 % power: 0.03 is 3 %
  double slowdown_20 = 0;  // the same for 20 repeats
};

/// Estimates the noise from repeated times. The difference of the logarithms of a pair of runs has
/// the standard deviation sqrt(2) v. A two-sided t-test at 5 % detects a slowdown d with 90 % power
/// if log(1 + d) = k(n) sqrt(2) v, where k is the standardized difference from the noncentral t
/// distribution: k(5) = 1.967, k(20) = 0.767. Times that are not positive are left out.
Noise noise_of(std::span<const double> seconds);

/// Returns one sentence with the formula.
std::string noise_text(const Noise& noise);
Json noise_json(const Noise& noise);

}  // namespace trainctl::report
