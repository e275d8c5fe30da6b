#include "report/compare/junit.hpp"

#include <cmath>

namespace trainctl::report {
namespace {

/// Replaces U+FFFE and U+FFFF, which XML 1.0 does not allow; printable() has already replaced
/// control characters.
std::string without_noncharacters(std::string text) {
  for (const char* forbidden : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (std::size_t at = text.find(forbidden); at != std::string::npos; at = text.find(forbidden))
      text.replace(at, 3, "\xEF\xBF\xBD");
  }
  return text;
}

std::string attribute(const std::string& text) {
  std::string safe;
  for (const char c : without_noncharacters(printable(text))) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&apos;"; break;
      default: safe += c;
    }
  }
  return safe;
}

std::string case_seconds(double seconds) {
  return fmt::format("{:.3f}", std::isfinite(seconds) ? seconds : 0);
}

std::string case_text(const JunitCase& one) {
  const std::string head =
      fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{}\"", attribute(one.group),
                  attribute(one.name), case_seconds(one.seconds));
  if (one.result == CaseResult::passed) return head + "/>\n";
  return fmt::format("{}>\n    <{} message=\"{}\"/>\n  </testcase>\n", head, enum_name(one.result),
                     attribute(one.message));
}

double seconds_of(const BenchRow& row) {
  double seconds = 0;
  for (const Trial& trial : row.trials) seconds += trial.total_s;
  return seconds;
}

}  // namespace

std::string junit_text(const std::string& suite, std::span<const JunitCase> cases) {
  const auto count = [&](CaseResult result) {
    return std::ranges::count(cases, result, &JunitCase::result);
  };
  double seconds = 0;
  for (const JunitCase& one : cases) seconds += std::isfinite(one.seconds) ? one.seconds : 0;
  const std::string numbers = fmt::format(
      "name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
      attribute(suite), cases.size(), count(CaseResult::failure), count(CaseResult::error),
      count(CaseResult::skipped), case_seconds(seconds));
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite {}>\n", numbers);
  for (const JunitCase& one : cases) text += case_text(one);
  return text + " </testsuite>\n</testsuites>\n";
}

std::vector<JunitCase> bench_cases(std::span<const BenchRow> rows,
                                   std::span<const Finding> findings, const std::string& group) {
  std::vector<JunitCase> cases;
  for (const BenchRow& row : rows) {
    JunitCase one{.group = group, .name = row.technique, .seconds = seconds_of(row)};
    if (row.failure) {
      one.result = CaseResult::error;
      one.message =
          fmt::format("exit {}: {}", row.failure->exit_code, one_line(row.failure->message));
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
    if (finding.verdict != Verdict::pass)
      one.result = finding.verdict == Verdict::fail ? CaseResult::failure : CaseResult::skipped;
    one.message = (finding.verdict == Verdict::inconclusive ? "inconclusive: " : "") + finding.why;
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace trainctl::report
