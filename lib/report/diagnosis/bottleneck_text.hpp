#pragma once

#include "base/json.hpp"
#include "report/diagnosis/bottleneck_rules.hpp"

#include <string>
#include <vector>

namespace trainctl::report {

/// The numbers that were measured; those that the verdict rests on `tell`. Nothing that the kernel
/// or the driver did not say.
std::vector<Evidence> evidence_of(const Facts& facts, const Rule& rule);

/// docs/bottlenecks.md: how a verdict comes about, the tuning decision tree and the table of
/// symptoms, made of the rules.
std::string bottlenecks_page();

/// The same table: {part, cause, verdict, symptom, diagnosis, fix, key} each.
Json bottlenecks_json();

}  // namespace trainctl::report
