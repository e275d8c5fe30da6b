#pragma once

#include "report/sinks/sink.hpp"

// The Prometheus text format for node_exporter's textfile collector, which requires samples without
// timestamps.

namespace trainctl::report {

using PrometheusLabels = std::vector<std::pair<std::string, std::string>>;

struct PrometheusSample {
  PrometheusLabels labels;
  double value = 0;
};

enum class PrometheusType { gauge, counter };

/// A metric with its help text and samples.
struct PrometheusMetric {
  std::string name;  // in base units: seconds, bytes, a ratio
  std::string help;
  PrometheusType type = PrometheusType::gauge;
  std::vector<PrometheusSample> samples = {};  // empty: the metric is left out
};

/// Returns HELP, TYPE and the samples of each metric; `common` labels precede those of a sample.
/// Label values may contain anything: reserved characters are escaped, and invalid UTF-8 is
/// replaced.
std::string prometheus_text(std::span<const PrometheusMetric> metrics,
                            const PrometheusLabels& common);

/// The file of make_prometheus_sink() and the labels of its samples.
struct PrometheusOptions {
  std::filesystem::path file;
  double every_s = 15;                // seconds between two writes within an epoch
  std::string run;                    // label `run` of every sample
  std::string host;                   // label `host`
  PrometheusLabels info;              // additional labels of trainctl_run_info
  int restarts = 0;                   // of the run before this start
  std::function<double()> wall_time;  // seconds since 1970
};

/// Returns a sink that writes the state of the run to one file, replaced atomically: at the start,
/// every few seconds, at each epoch and at the end, where it remains with trainctl_up 0 and the
/// exit code. A failed write is reported immediately and then every ten minutes, and does not
/// affect the run.
std::unique_ptr<Sink> make_prometheus_sink(PrometheusOptions options);

}  // namespace trainctl::report
