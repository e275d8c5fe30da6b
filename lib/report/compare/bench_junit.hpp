#pragma once

#include "report/compare/bench.hpp"
#include "report/compare/gate.hpp"
#include "report/compare/junit.hpp"

#include <span>
#include <string>
#include <vector>

namespace trainctl::report {

/// A case for each setting, which is an error where a run of it failed and skipped where it never
/// ran, and one for each condition:
/// a failure with its sentence, or skipped where it is inconclusive. `group` names the bench.
std::vector<JunitCase> bench_cases(std::span<const BenchRow> rows,
                                   std::span<const Finding> findings, const std::string& group);

}  // namespace trainctl::report
