#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::report {

/// below: it fails where the change is below the bound.
enum class Side { below, above };
/// percent of the base; points: hundredths of the metric's own unit, for shares such as accuracy.
enum class Unit { percent, points };

/// "samples_per_s<-2.5%": the change of a number that no later run may show.
struct Condition {
  std::string metric;
  Side side = Side::below;
  double bound = 0;  // -2.5 for "-2.5%", -0.5 for "-0.5pt"
  Unit unit = Unit::percent;
  std::string text;  // as it was written, without spaces
};

/// "samples_per_s<-2.5%, rss_mb>+10%, val/accuracy<-0.5pt". `metrics` are those that the runs will
/// tell beside kMeasures. Throws Error(config) that shows every mistake at its place.
std::vector<Condition> parse_conditions(std::string_view text,
                                        std::span<const std::string> metrics);

}  // namespace trainctl::report
