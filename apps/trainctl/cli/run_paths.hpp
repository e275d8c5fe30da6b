#pragma once

#include "base/files.hpp"
#include "report/record/run_files.hpp"
#include "study/folder/run_folder.hpp"

#include <string>
#include <vector>

namespace trainctl::app {

struct Context;

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

}  // namespace trainctl::app
