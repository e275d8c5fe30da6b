#pragma once

#include "report/sinks/sink.hpp"

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
  std::vector<PrometheusSample> samples = {};  // none: the metric is left out
};

/// HELP, TYPE and the samples of each; `common` labels go in front of those of a sample. Label
/// values may hold anything: what the format reserves is escaped, what is no UTF-8 is replaced.
std::string prometheus_text(std::span<const PrometheusMetric> metrics,
                            const PrometheusLabels& common);

struct PrometheusOptions {
  std::filesystem::path file;
  double every_s = 15;                // between two writings within an epoch
  std::string run;                    // label `run` of every sample
  std::string host;                   // label `host`
  PrometheusLabels info;              // of trainctl_run_info besides
  int restarts = 0;                   // of the run before this start
  std::function<double()> wall_time;  // seconds since 1970
};

/// The state of the run in one file, replaced as a whole: at the start, every few seconds, at each
/// epoch and at the end, where it stays with trainctl_up 0 and the exit code. A file that cannot be
/// written is told at once and then every ten minutes, and costs the run nothing.
std::unique_ptr<Sink> make_prometheus_sink(PrometheusOptions options);

}  // namespace trainctl::report
