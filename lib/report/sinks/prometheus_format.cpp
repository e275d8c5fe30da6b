#include "report/sinks/prometheus_format.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainctl::report {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// Bytes that are no UTF-8 become U+FFFD: the collector refuses a whole file for one of them.
std::string valid_utf8(const std::string& text) {
  std::string valid;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(std::string_view(text).substr(i));
    valid += length > 0 ? text.substr(i, length) : "\xef\xbf\xbd";
    i += length > 0 ? length : 1;
  }
  return valid;
}

enum class Quotes { bare, escaped };

std::string escaped(const std::string& text, Quotes quotes) {
  std::string written;
  for (const char c : valid_utf8(text)) {
    if (c == '\\') {
      written += "\\\\";
    } else if (c == '\n') {
      written += "\\n";
    } else if (c == '"' && quotes == Quotes::escaped) {
      written += "\\\"";
    } else {
      written += c;
    }
  }
  return written;
}

std::string labels_text(const PrometheusLabels& common, const PrometheusLabels& own) {
  std::string text;
  for (const PrometheusLabels* labels : {&common, &own}) {
    for (const auto& [name, value] : *labels)
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name,
                          escaped(value, Quotes::escaped));
  }
  return text.empty() ? "" : "{" + text + "}";
}

}  // namespace

std::string prometheus_text(std::span<const PrometheusMetric> metrics,
                            const PrometheusLabels& common) {
  std::string text;
  for (const PrometheusMetric& metric : metrics) {
    if (metric.samples.empty()) continue;
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name,
                        escaped(metric.help, Quotes::bare),
                        metric.type == PrometheusType::counter ? "counter" : "gauge");
    for (const PrometheusSample& sample : metric.samples)
      text += fmt::format("{}{} {}\n", metric.name, labels_text(common, sample.labels),
                          number_text(sample.value));
  }
  return text;
}

}  // namespace trainctl::report
