#pragma once

#include "report/compare/gate.hpp"

namespace trainctl::report {

/// `passed` has no element in the report; the others are named like theirs.
enum class CaseResult { passed, failure, error, skipped };
constexpr std::array<const char*, 4> enum_names(CaseResult) {
  return {"passed", "failure", "error", "skipped"};
}

/// One test case in the test report of a CI system.
struct JunitCase {
  std::string group;  // "bench mnist.yaml"
  std::string name;
  double seconds = 0;
  CaseResult result = CaseResult::passed;
  std::string message = {};  // why it failed, could not run, or was skipped
};

/// Returns the XML format that GitHub, GitLab and Jenkins read (github.com/testmoapp/junitxml
/// describes it). Characters that XML does not allow are replaced, so that no file or class name
/// breaks the document.
std::string junit_text(const std::string& suite, std::span<const JunitCase> cases);

/// Returns a case for each setting, which is an error if one of its runs failed and skipped if it
/// never ran, and one for each condition: a failure with its sentence, or skipped if it is
/// inconclusive. `group` is the name of the bench.
std::vector<JunitCase> bench_cases(std::span<const BenchRow> rows,
                                   std::span<const Finding> findings, const std::string& group);

}  // namespace trainctl::report
