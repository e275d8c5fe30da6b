#pragma once

#include "base/files.hpp"
#include "cli/verb.hpp"
#include "report/record/run_files.hpp"
#include "study/folder/run_folder.hpp"

#include <string>
#include <vector>

namespace trainctl::app {

/// Returns "skipped 2 newer runs without a checkpoint: ..." with some of their names.
std::string skipped_text(const std::vector<fs::path>& skipped, study::RunNeeds needs);

/// Returns the run folder that a word refers to (see study::lookup_run()), or the word itself if it
/// names a file or another folder, or no run. Prints to stderr which newer runs are skipped because
/// they lack what is needed.
std::string run_word(const std::string& word, const fs::path& root = "runs",
                     study::RunNeeds needs = study::RunNeeds::nothing);

/// Returns the run folders that a command line word refers to: the path itself, the runs of a sweep
/// folder, or the parts between commas. Throws Error(config) if one does not exist.
std::vector<std::string> runs_of_word(const std::string& word);

/// Prints missing and damaged files of a run folder to stderr. With --quiet, or with --json, whose
/// document has all notes, only damaged files are printed.
void print_notes(const report::RunFiles& run, const Context& context);

/// Returns the folder with the checkpoints; `path` is a run folder or that folder itself. Throws
/// Error(checkpoint) if `path` is not a folder, or is a checkpoint.
fs::path checkpoints_folder(const std::string& path);

/// Returns the folder of one checkpoint. `path` is the folder or a link to it; a run folder refers
/// to its newest checkpoint. Only names are read. Throws Error(checkpoint) if it has no checkpoint.
fs::path one_checkpoint(const std::string& path);

/// The arguments of `eval` and `predict`: an experiment or a run folder, and a checkpoint.
struct JobArguments {
  ConfigArguments config;
  std::string checkpoint;
  std::string run_dir;
  std::string split = "val";
  std::string input;  // used instead of the split, for `predict` only
  bool accept_data_change = false;
  SelectionFlags selection;
};

/// Adds CONFIG, the overrides, --checkpoint, --run-dir and --split.
void add_job_arguments(CLI::App& verb, JobArguments& arguments, Context& context);

/// Returns the run request of the job; everything is checked except the folder. Throws
/// Error(config) that lists the available checkpoints.
study::RunRequest job_request(JobArguments arguments, spec::JobKind kind, Context& context);

/// Runs the job in `folder`, which is kept and printed if the job fails. Progress goes to stderr.
/// With `Tables::files`, metrics that are tables are written to files in the folder.
enum class Tables { none, files };
study::RunOutcome run_job(study::RunRequest request, const fs::path& folder, Tables tables,
                          const Context& context);

/// Prints why a job failed and keeps the scratch folder unless a signal was the reason. Returns
/// the exit code.
int report_failed_job(study::RunOutcome& outcome, study::ScratchFolder* scratch,
                      const Context& context);

}  // namespace trainctl::app
