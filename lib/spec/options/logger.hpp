#pragma once

#include "config/schema/describe.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec::logger {

struct Console {
  static constexpr auto kSummary = "The table of epochs on stdout, the bar and warnings on stderr.";
};

struct Csv {
  static constexpr auto kSummary =
      "epochs.csv and timing.csv of the run folder, a row for each epoch; ranks.csv of several "
      "ranks.";
};

enum class ExecEvent { start, step, epoch, warning, end, failed };
constexpr std::array<const char*, 6> enum_names(ExecEvent) {
  return {"start", "step", "epoch", "warning", "end", "failed"};
}

struct Exec {
  static constexpr auto kSummary =
      "Starts a command with the run and writes lines of JSON to its standard input: what "
      "metrics.jsonl has, and the start and the end of the run.";

  std::vector<std::string> command;
  std::vector<ExecEvent> events{ExecEvent::start,   ExecEvent::step, ExecEvent::epoch,
                                ExecEvent::warning, ExecEvent::end,  ExecEvent::failed};
  double stop_after_s = 10;

  static void describe(auto& options) {
    options.field("command", &Exec::command,
                  {.required = true, .not_empty = true, .example = "[python3, to_wandb.py]"},
                  "The program and its arguments; no shell reads them, and ${secret:...} does not "
                  "belong there: the command inherits the environment.");
    options.field("events", &Exec::events, {.not_empty = true, .example = "[epoch, end, failed]"},
                  "Which lines it gets: start has the config, end and failed have result.json of a "
                  "run that ended well or badly.");
    options.field("stop_after_s", &Exec::stop_after_s, {.at_least = 0, .at_most = 3600},
                  "How long it may take to end after its input has; then it is killed.");
  }
};

struct Html {
  static constexpr auto kSummary =
      "report.html of the run folder: one page with curves, time and configuration that needs no "
      "network.";
};

struct Jsonl {
  static constexpr auto kSummary =
      "metrics.jsonl of the run folder: a line of JSON every log_every_n_steps and each epoch.";
};

struct Prometheus {
  static constexpr auto kSummary =
      "A file that the textfile collector of Prometheus' node_exporter reads: state, step, loss, "
      "rate, checkpoints, exit code.";

  std::optional<std::filesystem::path> file;
  double every_s = 15;

  static void describe(auto& options) {
    options.field("file", &Prometheus::file,
                  {.example = "/var/lib/node_exporter/textfile/trainctl.prom"},
                  "The file, whose name ends in .prom; each run on a machine needs one of its own. "
                  "Absent: trainctl.prom in the run folder.");
    options.field("every_s", &Prometheus::every_s, {.at_least = 0.1, .at_most = 86400},
                  "Seconds between two updates within an epoch.");
  }
};

struct Tensorboard {
  static constexpr auto kSummary =
      "Event files for TensorBoard in tensorboard/ of the run folder: scalars, hyperparameters, "
      "the config and the verdict, confusion matrices, distributions of step times.";

  std::int64_t histograms_every_n_epochs = 1;
  bool images = true;

  static void describe(auto& options) {
    options.field("histograms_every_n_epochs", &Tensorboard::histograms_every_n_epochs,
                  {.at_least = 0, .at_most = 1'000'000},
                  "Epochs between two distributions of step times; 0: none.");
    options.field("images", &Tensorboard::images,
                  "A picture of each confusion matrix, where that metric is asked for.");
  }
};

}  // namespace trainctl::spec::logger
