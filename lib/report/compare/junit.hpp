#pragma once

#include "report/compare/bench.hpp"
#include "report/compare/gate.hpp"

namespace trainctl::report {

enum class CaseResult : std::uint8_t { passed, failed, error, skipped };

/// One line of a CI's list of tests.
struct JunitCase {
  std::string group;  // "bench mnist.yaml"
  std::string name;
  double seconds = 0;
  CaseResult result = CaseResult::passed;
  std::string message = {};  // why it failed, could not run, or was skipped
};

/// The XML that GitHub, GitLab and Jenkins read (github.com/testmoapp/junitxml describes it). What
/// XML cannot hold is replaced, so that no name of a file or class breaks the document.
std::string junit_text(const std::string& suite, std::span<const JunitCase> cases);

/// A case for each setting, which is an error where a run of it failed and skipped where it never
/// ran, and one for each condition:
/// a failure with its sentence, or skipped where it is inconclusive. `group` names the bench.
std::vector<JunitCase> bench_cases(std::span<const BenchRow> rows,
                                   std::span<const Finding> findings, const std::string& group);

}  // namespace trainctl::report
