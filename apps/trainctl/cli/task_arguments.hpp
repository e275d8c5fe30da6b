#pragma once

#include "cli/verb.hpp"

namespace trainctl::app {

/// What `eval` and `predict` take: an experiment, or the folder of a run, and one of its
/// checkpoints.
struct TaskArguments {
  ConfigArguments config;
  std::string checkpoint;
  std::string run_dir;
  std::string split = "val";
  std::string input;  // in its place; of `predict` only
  bool accept_data_change = false;
  SelectionFlags selection;
};

/// Adds CONFIG, the overrides, --checkpoint, --run-dir and --split.
void add_task_arguments(CLI::App& verb, TaskArguments& arguments, Context& context);

/// The task as a run to be started, all of it checked but for its folder. Throws Error(config) that
/// says which checkpoints there are.
study::RunRequest task_request(TaskArguments arguments, spec::TaskKind kind, Context& context);

/// Starts the task in `folder`, which stays where the task failed, and tells so. The progress goes
/// to stderr; with `Tables::files` metrics that are tables become files of the folder.
enum class Tables { none, files };
study::RunOutcome run_task(study::RunRequest request, const fs::path& folder, Tables tables,
                           const Context& context);

/// Tells why a task failed, and keeps the scratch folder unless a signal was the reason. Returns
/// the exit code.
int report_failed_task(study::RunOutcome& outcome, study::ScratchFolder* scratch,
                       const Context& context);

}  // namespace trainctl::app
