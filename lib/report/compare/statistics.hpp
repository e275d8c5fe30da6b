#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace trainctl::report {

struct Interval {
  double low = 0;
  double high = 0;
};

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
/// ("The generalization of 'Student's' problem when several different population variances are
/// involved", Biometrika 34, 1947). Of each side one outlier at most is dropped, as above. Where
/// one side is a single run, its noise is taken to be that of the other.
Change unpaired_change(std::span<const double> base, std::span<const double> other, Scale scale,
                       double level = 0.95);

}  // namespace trainctl::report
