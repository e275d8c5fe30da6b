#pragma once

#include "base/json.hpp"

#include <string>

namespace trainctl::report {

/// docs/bottlenecks.md: how a verdict comes about, the tuning decision tree and the table of
/// symptoms, made of the rules.
std::string bottlenecks_page();

/// The same table: {part, cause, verdict, symptom, diagnosis, fix, key} each.
Json bottlenecks_json();

}  // namespace trainctl::report
