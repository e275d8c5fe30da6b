#pragma once

#include <string>
#include <vector>

namespace trainctl::report {

enum class AxisScaling { linear, logarithmic };

/// An axis from `low` to `high` with the values that are written at it, ascending, within it.
struct Axis {
  double low = 0;
  double high = 1;
  AxisScaling scaling = AxisScaling::linear;
  std::vector<double> ticks;

  /// Where the value lies: 0 at `low`, 1 at `high`. NaN of what has no place on it.
  [[nodiscard]] double place(double value) const;
};

/// Widened to whole steps of 1, 2 or 5 times a power of ten; about `most` ticks and never more than
/// `most` + 2. Without a finite value, or with one value only, it still has an extent.
Axis linear_axis(double low, double high, int most);
/// Powers of ten, and 2 and 5 times them where there are few. `low` is above 0.
Axis log_axis(double low, double high, int most);
/// Whole numbers alone: epochs, steps. Not widened.
Axis whole_axis(double low, double high, int most);

/// A tick with as many decimals as its neighbours need to differ: "0.05", "1,500", "2e-05", "15k".
std::string tick_text(double value, const Axis& axis);

}  // namespace trainctl::report
