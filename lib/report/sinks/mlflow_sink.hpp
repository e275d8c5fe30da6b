#pragma once

#include "report/sinks/mlflow_client.hpp"
#include "report/sinks/sink.hpp"

#include <stop_token>

namespace trainctl::report {

/// The options of make_mlflow_sink().
struct MlflowOptions {
  std::string uri;  // of the tracking server
  /// Sends a request of the sink's thread. Fails within about a second after a stop is requested.
  std::function<mlflow::Reply(const mlflow::Call&, const std::stop_token&)> transport;
  mlflow::NewRun run;
  mlflow::Pairs params;
  std::filesystem::path run_dir;  // mlflow.json there has the id of the run
  std::string config;             // YAML; uploaded as config.resolved.yaml
  bool log_artifacts = true;      // uploads the config, result.json and report.html
  double stop_after_s = 10;       // time limit for the rest after the end of the run
  double stopped_after_s = 2;     // the same if the run is stopped by a signal
  double send_every_s = 1;
  double first_pause_s = 1;  // after a failure; doubled with each further failure
  double longest_pause_s = 60;
  std::size_t most_waiting = 100'000;  // metric values in memory; then the oldest are dropped
  std::function<double()> wall_time;   // seconds since 1970
  std::function<double()> now;         // in seconds of a steady clock
  /// Returns whether a stop of trainctl was requested; empty: never.
  std::function<bool()> is_stop_requested = {};
};

/// Returns a sink that sends the numbers of scalars_of(), the parameters and files of a run to an
/// MLflow tracking server. A separate thread sends, so the run never waits for the server. The
/// thread starts at the first on_tick(). If the server does not accept data, a warning says so
/// once and values wait in memory. A run folder with mlflow.json continues the run in that file.
std::unique_ptr<Sink> make_mlflow_sink(MlflowOptions options);

}  // namespace trainctl::report
