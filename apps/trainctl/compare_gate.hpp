#pragma once

#include "report/compare/comparison_gate.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::app {

/// What --fail-on has found.
struct CompareGate {
  std::vector<report::Finding> findings;
  std::string notes;  // below the table
};

/// What --fail-on and --force ask for.
struct CompareConditions {
  std::string text;
  bool force = false;  // speeds of other machines are judged, too
};

/// Both throw Error(config) for mistakes in the conditions, where nothing can be judged, and for
/// speeds of other machines that are not forced.
CompareGate judge_runs(const CompareConditions& conditions, const report::Compared& runs);
CompareGate judge_benches(const CompareConditions& conditions, const report::Compared& benches,
                          const std::vector<std::string>& files);

/// The test cases of --junit: equal losses, and each condition.
std::string compare_junit(const std::optional<report::LossComparison>& losses,
                          const std::string& first, const std::optional<CompareGate>& gate);

}  // namespace trainctl::app
