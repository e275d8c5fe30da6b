#include "report/compare/junit.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::report {
namespace {

/// XML 1.0 has neither control characters nor the last two code points of the first plane;
/// printable() leaves only these.
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

std::string seconds_text(double seconds) {
  return fmt::format("{:.3f}", std::isfinite(seconds) ? seconds : 0);
}

const char* element_of(CaseResult result) {
  switch (result) {
    case CaseResult::failed: return "failure";
    case CaseResult::error: return "error";
    case CaseResult::skipped: return "skipped";
    case CaseResult::passed: break;
  }
  return "";
}

std::string case_text(const JunitCase& one) {
  const std::string head =
      fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{}\"", attribute(one.group),
                  attribute(one.name), seconds_text(one.seconds));
  if (one.result == CaseResult::passed) return head + "/>\n";
  return fmt::format("{}>\n    <{} message=\"{}\"/>\n  </testcase>\n", head, element_of(one.result),
                     attribute(one.message));
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
      attribute(suite), cases.size(), count(CaseResult::failed), count(CaseResult::error),
      count(CaseResult::skipped), seconds_text(seconds));
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite {}>\n", numbers);
  for (const JunitCase& one : cases) text += case_text(one);
  return text + " </testsuite>\n</testsuites>\n";
}

}  // namespace trainctl::report
