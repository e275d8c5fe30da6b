#pragma once

#include "report/compare/gate_condition.hpp"
#include "report/compare/statistics.hpp"

#include <optional>
#include <string>

namespace trainctl::report {

/// A change of the scale (1.05, 0.005) in the condition's unit (5 %, 0.5 pt), and back.
double shown(double change, const Condition& condition);
double scaled(double bound, const Condition& condition);

/// What would decide a change whose interval includes the bound.
struct Advice {
  std::optional<int> repeats;  // of the side that is judged; of pairs, of both
  std::string text;            // a clause
};

/// How many repeats would tell the bound from no change; where those have been made, or the bound
/// is no change, from the change that was seen. Of sides that were made apart the base stays as it
/// is; where no number of repeats decides against so few, the text asks for a larger baseline.
Advice advice(const Condition& condition, const Change& change, double alpha);

}  // namespace trainctl::report
