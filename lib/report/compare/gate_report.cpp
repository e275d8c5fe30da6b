#include "base/strings.hpp"
#include "report/compare/gate.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainctl::report {
namespace {

std::string amount_text(const Finding& finding) {
  if (!finding.change) return "-";
  return fmt::format("{:+.{}f} {}", *finding.change, std::abs(*finding.change) < 10 ? 2 : 1,
                     unit_text(finding.condition.unit));
}

std::string number_text(const Finding& finding, const std::optional<double>& value) {
  if (!value) return "-";
  const bool is_metric = finding.condition.metric.find('/') != std::string::npos;
  if (is_metric || !std::isfinite(*value)) return metric_text(*value);
  return *value < 100 ? fmt::format("{:.4g}", *value) : rate_text(*value);
}

const char* verdict_name(const Finding& finding) {
  return enum_names(finding.verdict).at(static_cast<std::size_t>(finding.verdict));
}

}  // namespace

Table gate_table(std::span<const Finding> findings) {
  Table table({{"condition", Align::left},
               {"technique", Align::left},
               {"base"},
               {"now"},
               {"change"},
               {"interval"},
               {"verdict", Align::left}});
  for (const Finding& finding : findings) {
    table.add({finding.condition.text, printable(finding.technique),
               number_text(finding, finding.base), number_text(finding, finding.now),
               amount_text(finding),
               finding.interval ? interval_text(*finding.interval, finding.condition.unit) : "-",
               verdict_name(finding)});
  }
  return table;
}

std::string gate_notes(std::span<const Finding> findings, Pairing pairing) {
  std::string text;
  for (const Finding& finding : findings) {
    if (finding.verdict == Verdict::pass) continue;
    text += fmt::format(
        "{}: {}, {}: {}.\n", finding.verdict == Verdict::fail ? "Failed" : "Inconclusive",
        finding.condition.text, printable(finding.technique), printable(finding.why));
  }
  for (const Finding& finding : findings) {
    if (finding.outliers > 0)
      text += fmt::format("{}, {}: {} outlier{} left out of the interval.\n",
                          finding.condition.text, printable(finding.technique), finding.outliers,
                          finding.outliers == 1 ? " is" : "s are");
  }
  if (!findings.empty())
    text += fmt::format("Compared with {}.\n", printable(findings.front().against));
  if (pairing == Pairing::apart && !findings.empty())
    text +=
        "The baseline was not made in turns with this bench: what else the machine did on "
        "either day is in the change (Welch's interval).\n";
  return text;
}

Json gate_json(std::span<const Finding> findings) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? json_number(*value) : Json(nullptr);
  };
  Json list = Json::array();
  for (const Finding& finding : findings) {
    Json interval = nullptr;
    if (finding.interval) interval = Json::array({finding.interval->low, finding.interval->high});
    list.push_back({{"condition", finding.condition.text},
                    {"technique", finding.technique},
                    {"against", finding.against},
                    {"verdict", verdict_name(finding)},
                    {"base", or_null(finding.base)},
                    {"now", or_null(finding.now)},
                    {"change", or_null(finding.change)},
                    {"unit", unit_text(finding.condition.unit)},
                    {"interval", interval},
                    {"outliers", finding.outliers},
                    {"repeats_needed", finding.repeats ? Json(*finding.repeats) : Json(nullptr)},
                    {"why", finding.why}});
  }
  return {{"exit_code", gate_code(findings)}, {"conditions", list}};
}

}  // namespace trainctl::report
