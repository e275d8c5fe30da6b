#pragma once

#include "config/schema/describe.hpp"

#include <array>
#include <string>
#include <vector>

namespace trainctl::spec::logger {

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

  static void describe(config::Describe<Exec>& options) {
    options
        .field("command", &Exec::command,
               "The program and its arguments; no shell reads them, and ${secret:...} does not "
               "belong there: the command inherits the environment.")
        .required()
        .not_empty()
        .example("[python3, to_wandb.py]");
    options
        .field(
            "events", &Exec::events,
            "Which lines it gets: start has the config, end and failed have result.json of a run "
            "that ended well or badly.")
        .not_empty()
        .example("[epoch, end, failed]");
    options
        .field("stop_after_s", &Exec::stop_after_s,
               "How long it may take to end after its input has; then it is killed.")
        .at_least(0)
        .at_most(3600);
  }
};

}  // namespace trainctl::spec::logger
