#pragma once

#include "base/json.hpp"
#include "report/plan/communication_cost.hpp"
#include "report/text/format.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::report {

/// What steps of several ranks would take, by a step of one and a link.
struct PlannedScaling {
  ExchangedStep step;
  Link link;
  std::string link_from;                  // "measured now: 2 processes on cpu with gloo"
  std::string device;                     // that the step was measured on: "cpu with 2 threads"
  std::string backward_from;              // "timed"
  std::vector<ForetoldStep> rows;         // 1, the number that was asked for, 64 and 1,024
  std::optional<SharedStep> shared = {};  // of the number that was asked for; absent: not measured
};

/// The rows for `ranks`, ascending.
std::vector<ForetoldStep> foretell_growth(const ExchangedStep& step, const Link& link, int ranks);

/// Puts the measured step in the place of the one that is foretold for as many ranks.
void use_measured(const SharedStep& shared, const ExchangedStep& alone,
                  std::vector<ForetoldStep>& rows);

/// What has to hold for the rows to be right, a sentence each.
std::vector<std::string> scaling_assumptions(const PlannedScaling& scaling);

/// Table and lines for a terminal.
std::string scaling_text(const PlannedScaling& scaling, const Style& style);
/// Schema "trainctl.scaling/1": `scaling` of the plan's document.
Json scaling_json(const PlannedScaling& scaling);

}  // namespace trainctl::report
