#pragma once

#include "cli/verb.hpp"

namespace trainctl::app {

/// The arguments of `eval` and `predict`: an experiment or a run folder, and a checkpoint.
struct TaskArguments {
  ConfigArguments config;
  std::string checkpoint;
  std::string run_dir;
  std::string split = "val";
  std::string input;  // used instead of the split, for `predict` only
  bool accept_data_change = false;
  SelectionFlags selection;
};

/// Adds CONFIG, the overrides, --checkpoint, --run-dir and --split.
void add_task_arguments(CLI::App& verb, TaskArguments& arguments, Context& context);

/// Returns the run request of the task; everything is checked except the folder. Throws
/// Error(config) that lists the available checkpoints.
study::RunRequest task_request(TaskArguments arguments, spec::TaskKind kind, Context& context);

/// Runs the task in `folder`, which is kept and printed if the task fails. Progress goes to stderr.
/// With `Tables::files`, metrics that are tables are written to files in the folder.
enum class Tables { none, files };
study::RunOutcome run_task(study::RunRequest request, const fs::path& folder, Tables tables,
                           const Context& context);

/// Prints why a task failed and keeps the scratch folder unless a signal was the reason. Returns
/// the exit code.
int report_failed_task(study::RunOutcome& outcome, study::ScratchFolder* scratch,
                       const Context& context);

}  // namespace trainctl::app
