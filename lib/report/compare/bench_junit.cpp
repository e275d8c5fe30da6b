#include "report/compare/bench_junit.hpp"

#include <fmt/format.h>

#include <utility>

namespace trainctl::report {
namespace {

double seconds_of(const BenchRow& row) {
  double seconds = 0;
  for (const Trial& trial : row.trials) seconds += trial.total_s;
  return seconds;
}

CaseResult result_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fail: return CaseResult::failed;
    case Verdict::inconclusive: return CaseResult::skipped;
    case Verdict::pass: break;
  }
  return CaseResult::passed;
}

}  // namespace

std::vector<JunitCase> bench_cases(std::span<const BenchRow> rows,
                                   std::span<const Finding> findings, const std::string& group) {
  std::vector<JunitCase> cases;
  for (const BenchRow& row : rows) {
    JunitCase one{.group = group, .name = row.technique, .seconds = seconds_of(row)};
    if (row.failure) {
      one.result = CaseResult::error;
      one.message = fmt::format("exit {}: {}", row.failure->exit_code, row.failure->message);
    }
    if (row.trials.empty() && !row.failure) {
      one.result = CaseResult::skipped;
      one.message = "never ran";
    }
    cases.push_back(std::move(one));
  }
  for (const Finding& finding : findings) {
    JunitCase one{.group = group + " gate",
                  .name = finding.technique + ": " + finding.condition.text};
    one.result = result_of(finding.verdict);
    one.message = (finding.verdict == Verdict::inconclusive ? "inconclusive: " : "") + finding.why;
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace trainctl::report
