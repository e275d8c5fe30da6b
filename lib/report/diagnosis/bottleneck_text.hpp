#pragma once

#include "report/diagnosis/bottleneck_rules.hpp"

#include <vector>

namespace trainctl::report {

/// The numbers that were measured; those that the verdict rests on `tell`. Nothing that the kernel
/// or the driver did not say.
std::vector<Evidence> evidence_of(const Facts& facts, const Rule& rule);

}  // namespace trainctl::report
