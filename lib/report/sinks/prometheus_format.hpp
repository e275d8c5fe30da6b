#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

// The text format of Prometheus, as node_exporter's textfile collector reads it: without times.

namespace trainctl::report {

using PrometheusLabels = std::vector<std::pair<std::string, std::string>>;

struct PrometheusSample {
  PrometheusLabels labels;
  double value = 0;
};

enum class PrometheusType { gauge, counter };

struct PrometheusMetric {
  std::string name;  // in base units: seconds, bytes, a ratio
  std::string help;
  PrometheusType type = PrometheusType::gauge;
  std::vector<PrometheusSample> samples;  // none: the metric is left out
};

/// HELP, TYPE and the samples of each; `common` labels go in front of those of a sample. Label
/// values may hold anything: what the format reserves is escaped, what is no UTF-8 is replaced.
std::string prometheus_text(std::span<const PrometheusMetric> metrics,
                            const PrometheusLabels& common);

}  // namespace trainctl::report
