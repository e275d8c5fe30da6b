#pragma once

#include "config/schema/describe.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec::logger {

struct Console {
  static constexpr auto kSummary = "The table of epochs on stdout, the bar and warnings on stderr.";
};

struct Csv {
  static constexpr auto kSummary =
      "epochs.csv and timing.csv in the run folder, one row per epoch; with several ranks also "
      "ranks.csv.";
};

enum class ExecEvent { start, step, validation, epoch, warning, end, failed };
constexpr std::array<const char*, 7> enum_names(ExecEvent) {
  return {"start", "step", "validation", "epoch", "warning", "end", "failed"};
}

struct Exec {
  static constexpr auto kSummary =
      "Starts a command with the run and writes JSON lines to its standard input: the lines of "
      "metrics.jsonl, and lines for the start and end of the run.";

  std::vector<std::string> command;
  std::vector<ExecEvent> events{ExecEvent::start, ExecEvent::step,    ExecEvent::validation,
                                ExecEvent::epoch, ExecEvent::warning, ExecEvent::end,
                                ExecEvent::failed};
  double stop_after_s = 10;

  static void describe(auto& options) {
    options.field("command", &Exec::command,
                  {.required = true, .not_empty = true, .example = "[python3, to_wandb.py]"},
                  "Program and arguments, run without a shell; do not use ${secret:...} here: the "
                  "command inherits the environment.");
    options.field("events", &Exec::events, {.not_empty = true, .example = "[epoch, end, failed]"},
                  "Events to send: start contains the config, end and failed contain result.json "
                  "of a completed or failed run.");
    options.field(
        "stop_after_s", &Exec::stop_after_s, {.at_least = 0, .at_most = 3600},
        "Seconds to wait for the command to exit after its input is closed, before it is killed.");
  }
};

struct Html {
  static constexpr auto kSummary =
      "report.html in the run folder: a self-contained page with curves, times and the config.";
};

struct Jsonl {
  static constexpr auto kSummary =
      "metrics.jsonl in the run folder: a JSON line every log_every_n_steps steps and every epoch.";
};

struct Mlflow {
  static constexpr auto kSummary =
      "A run of an MLflow tracking server: parameters, metrics, the config, result.json and "
      "report.html.";

  std::optional<std::string> tracking_uri;
  std::optional<std::string> experiment_name;
  std::optional<std::string> run_name;
  std::map<std::string, std::string> tags;
  bool log_artifacts = true;
  double stop_after_s = 10;

  static void describe(auto& options) {
    options.field("tracking_uri", &Mlflow::tracking_uri,
                  {.not_empty = true, .example = "http://mlflow.example:5000"},
                  "URL of the server, without user and password. Absent: the environment variable "
                  "MLFLOW_TRACKING_URI.");
    options.field("experiment_name", &Mlflow::experiment_name,
                  {.not_empty = true, .example = "mnist"},
                  "MLflow experiment, which is created if missing. Absent: MLFLOW_EXPERIMENT_NAME, "
                  "or the key name of this file.");
    options.field("run_name", &Mlflow::run_name, {.not_empty = true, .example = "baseline"},
                  "Name of the run. Absent: MLFLOW_RUN_NAME, or the name of the run folder.");
    options.field("tags", &Mlflow::tags, {.example = "{team: vision}"},
                  "Tags of the run, in addition to those that trainctl sets.");
    options.field("log_artifacts", &Mlflow::log_artifacts,
                  "Uploads config.resolved.yaml, result.json and report.html, if the server serves "
                  "artifacts.");
    options.field("stop_after_s", &Mlflow::stop_after_s, {.at_least = 0, .at_most = 3600},
                  "Seconds to wait at the end of the run until the server has received the rest.");
  }
};

struct Prometheus {
  static constexpr auto kSummary =
      "A file for the textfile collector of Prometheus' node_exporter: state, step, loss, "
      "throughput, checkpoints, exit code.";

  std::optional<std::filesystem::path> file;
  double every_s = 15;

  static void describe(auto& options) {
    options.field("file", &Prometheus::file,
                  {.example = "/var/lib/node_exporter/textfile/trainctl.prom"},
                  "Path of the file, ending in .prom; each run on a machine needs a separate file. "
                  "Absent: trainctl.prom in the run folder.");
    options.field("every_s", &Prometheus::every_s, {.at_least = 0.1, .at_most = 86400},
                  "Seconds between two updates within an epoch.");
  }
};

struct Tensorboard {
  static constexpr auto kSummary =
      "TensorBoard event files in tensorboard/ of the run folder: scalars, hyperparameters, "
      "config, bottleneck, confusion matrices, histograms of step times, weights and gradients.";

  std::int64_t histograms_every_n_epochs = 1;
  std::int64_t weights_every_n_steps = 0;
  bool images = true;

  static void describe(auto& options) {
    options.field("histograms_every_n_epochs", &Tensorboard::histograms_every_n_epochs,
                  {.at_least = 0, .at_most = 1'000'000},
                  "Epochs between two histograms of step times; 0: none.");
    options.field("weights_every_n_steps", &Tensorboard::weights_every_n_steps, {.at_least = 0},
                  "Steps between two histograms of all weights and gradients; 0: none.");
    options.field("images", &Tensorboard::images,
                  "Writes an image of each confusion matrix, if that metric is listed.");
  }
};

}  // namespace trainctl::spec::logger
