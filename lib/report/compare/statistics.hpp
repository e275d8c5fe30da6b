#pragma once

#include "base/json.hpp"
#include "base/statistics.hpp"

#include <cstddef>
#include <string>

namespace trainctl::report {

/// {"median", "q1", "q3"}
Json quartiles_json(const Quartiles& quartiles);

struct Interval {
  double low = 0;
  double high = 0;
};

/// The smallest interval that holds all values that are finite; low > high where there are none.
Interval extent_of(std::span<const double> values);

/// What is compared: other over base (times, rates, memory), or other less base (shares).
enum class Scale { ratio, difference };

/// One side of a comparison.
struct SideNoise {
  double deviation = 0;   // standard deviation of a repeat, of the logarithm where it is a ratio
  std::size_t count = 0;  // repeats
};

/// How far one number is from another, over the repeats of both.
struct Change {
  std::optional<double> value;       // 1 or 0, as the scale has it: nothing has changed
  std::optional<Interval> interval;  // of that value; needs noise that is known
  double noise = 0;          // standard deviation of one pair, of the logarithm where it is a ratio
  double df = 0;             // degrees of freedom of the noise; 0: it is not known
  std::size_t repeats = 0;   // pairs; of repeats apart the fewer of both sides
  std::size_t outliers = 0;  // pairs or repeats that were dropped
  bool apart = false;        // the sides are no pairs, and are told below
  SideNoise base_side = {};
  SideNoise now_side = {};
};

/// The fewest pairs that get an interval: two have one degree of freedom, and an interval that says
/// nothing.
inline constexpr std::size_t kFewestPairs = 3;

/// Repeats are paired in their order: interleaved rounds put the i-th repeats of two rows next to
/// each other, so that a slow minute of the machine slows both and falls out of their ratio. The
/// value is the mean of the pairs (of ratios the geometric one), the interval Student's t of their
/// logarithms or differences ("Student", "The probable error of a mean", Biometrika 6, 1908); why
/// not the bootstrap: docs/adr/0015-t-of-log-ratios.md. Of ratios, pairs with a number that is not
/// above 0 and finite are left out; of differences those with one that is not finite.
/// Of 4 to 20 ratios, one outlier at most is dropped: one whose distance from the others Student's
/// t puts beyond what n values reach in `(1 - level) * 0.4 / n` of all samples. The interval misses
/// the truth at most a tenth more often than without it: 5.2 % instead of 4.9 % of null benches
/// fail a gate of six conditions.
Change paired_change(std::span<const double> base, std::span<const double> other, Scale scale,
                     double level = 0.95);

/// The same of repeats that were made apart, as a bench and a file of another day: Welch's interval
/// (Biometrika 34, 1947). Of each side one outlier at most is dropped, as above. Where one side is
/// a single run, its noise is taken to be that of the other.
Change unpaired_change(std::span<const double> base, std::span<const double> other, Scale scale,
                       double level = 0.95);

/// How many times as fast `other` is as `base`; nothing where no pair of repeats can be compared.
struct Speedup {
  std::optional<double> value;        // geometric mean of the paired ratios
  std::optional<Interval> ci95 = {};  // of that mean; needs 3 pairs
  std::size_t pairs = 0;
};

/// Repeats are paired in their order, see paired_change(). A pair with a time that is not above 0
/// and finite is left out.
Speedup speedup(std::span<const double> base_s, std::span<const double> other_s);
/// "1.85x [1.70, 1.99]"; "-" where nothing could be compared.
std::string gain_text(const Speedup& gain);
/// {"value", "ci95"}
Json speedup_json(const Speedup& speedup);

/// A mean and where the true one lies, as far as a few values can tell.
struct MeanInterval {
  std::size_t count = 0;              // values that are finite
  std::optional<double> mean = {};    // absent: there are none
  std::optional<Interval> ci95 = {};  // Student's, of normal values; needs two of them
};

/// Values that are not finite are left out.
MeanInterval mean_interval(std::span<const double> values);

/// Of `values` minus `base`, pair by pair; pairs with a value that is not finite are left out.
MeanInterval paired_interval(std::span<const double> base, std::span<const double> values);

/// How far the mean of `other` is from that of `base`.
struct MeanDifference {
  double base = 0;  // means
  double other = 0;
  double difference = 0;              // other - base
  std::optional<Interval> ci95 = {};  // of the difference; needs two values on each side
  bool paired = false;
};

/// Student's interval of the differences of pairs; both are of the same size.
MeanDifference paired_difference(std::span<const double> base, std::span<const double> other);
/// Welch's interval, where the values of the two have nothing to do with each other.
MeanDifference unpaired_difference(std::span<const double> base, std::span<const double> other);

/// How much the same work differs in time on this machine, and so how small a slow-down a
/// comparison can tell.
struct Noise {
  int repeats = 0;
  double median_s = 0;
  double variation = 0;  // standard deviation of the logarithms: about the coefficient of variation
  double slowdown_5 = 0;   // smallest that 5 paired repeats tell with a power of 90 %: 0.03 is 3 %
  double slowdown_20 = 0;  // and 20
};

/// Of pairs of runs, the difference of their logarithms has the deviation sqrt(2) v. A two-sided
/// t-test at 5 % tells a slow-down d with a power of 90 % where log(1 + d) = k(n) sqrt(2) v; k is
/// the standardized difference that the noncentral t distribution asks for: k(5) = 1.967, k(20) =
/// 0.767. Times that are not above 0 are left out.
Noise noise_of(std::span<const double> seconds);

/// One sentence with the formula.
std::string noise_text(const Noise& noise);
Json noise_json(const Noise& noise);

}  // namespace trainctl::report
