#pragma once

#include "base/files.hpp"
#include "report/record/run_files.hpp"
#include "study/folder/run_folder.hpp"

#include <string>
#include <vector>

namespace trainctl::app {

struct Context;

/// Returns "skipped 2 newer runs without a checkpoint: ..." with the names of some.
std::string skipped_text(const std::vector<fs::path>& skipped, study::RunNeeds needs);

/// The run folder that the word means, see study::run_called(); the word itself where it names a
/// file or another folder, or no run.
/// Prints to stderr which newer runs it skips because they lack what is needed.
std::string run_word(const std::string& word, const fs::path& root = "runs",
                     study::RunNeeds needs = study::RunNeeds::nothing);

/// The run folders of a word of the command line: itself where it exists, or the runs of a sweep's
/// folder, else what stands between its commas. Throws Error(config) where one does not exist.
std::vector<std::string> runs_of_word(const std::string& word);

/// What is missing or damaged in a run's folder, to stderr; under --quiet or --json, whose document
/// has all notes, what is damaged alone.
void tell_notes(const report::RunFiles& run, const Context& context);

/// Where the checkpoints lie: `path` may be a run folder or that folder itself. Throws
/// Error(checkpoint) where it is no folder, or a checkpoint.
fs::path checkpoints_folder(const std::string& path);

/// Returns the folder of one checkpoint: `path` is that folder or a link to it; a run folder means
/// its newest checkpoint. Only names are read. Throws Error(checkpoint) if there is no checkpoint.
fs::path one_checkpoint(const std::string& path);

}  // namespace trainctl::app
