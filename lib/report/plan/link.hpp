#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/plan/communication_cost.hpp"
#include "report/text/format.hpp"

#include <string>

namespace trainctl::report {

/// The link that measured sums tell of.
struct LinkFit {
  Link link;
  double deviation = 0;  // of the ring's formula from a median, the largest, as a share
};

/// Least squares of the relative deviations of a + b x bytes from the medians, from which the
/// ring's formula gives latency (a over 2 (N-1) messages) and bandwidth. Throws Error(unexpected)
/// for measurements that no worker makes: one rank, no size, a time that is not above 0.
LinkFit fit_link(const events::LinkMeasured& measured);

/// The table of `doctor --link`, and what follows from it.
std::string link_text(const events::LinkMeasured& measured, const Style& style);
/// Schema "trainctl.link/1": part of doctor's document.
Json link_json(const events::LinkMeasured& measured);

/// What `doctor --link --json` wrote; `label` is the file. Throws Error(config).
Link read_link(const Json& document, const std::string& label);

/// "2 processes on cpu with gloo"
std::string ranks_text(const events::LinkMeasured& measured);

}  // namespace trainctl::report
