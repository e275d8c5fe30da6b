#pragma once

#include "report/compare_gate.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::app {

/// What --fail-on has found.
struct CompareGate {
  std::vector<report::Finding> findings;
  std::vector<std::string> warnings;  // machines that are not the same
  std::string notes;                  // below the table
};

/// Both throw Error(config) for mistakes in the conditions, and where nothing can be judged.
CompareGate judge_runs(const std::string& conditions, const report::Compared& runs);
CompareGate judge_benches(const std::string& conditions, const std::vector<std::string>& files);

/// The test cases of --junit: equal losses, and each condition.
std::string compare_junit(const std::optional<report::LossComparison>& losses,
                          const std::string& first, const std::optional<CompareGate>& gate);

}  // namespace trainctl::app
