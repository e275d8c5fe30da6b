#pragma once

#include "report/sinks/prometheus_format.hpp"
#include "report/sinks/sink.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace trainctl::report {

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
