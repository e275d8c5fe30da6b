#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "report/record/run_record.hpp"
#include "spec/experiment/task.hpp"
#include "study/run/run_start.hpp"

#include <map>
#include <string>
#include <vector>

namespace trainctl::study {

/// The state of a git repository.
struct GitState {
  std::string commit;  // empty: not in a repository
  std::string status;  // "clean", "modified"
};

/// The inputs of a run's manifest that are known before its workers report.
struct ManifestInput {
  std::vector<std::string> argv = {};
  fs::path config_file = {};
  std::string version = {};
  std::string started_at = {};
  std::map<std::string, std::string> data_fingerprints = {};  // split -> hex, of an earlier start
  std::string thread_waiting =
      {};  // "spin" or "sleep", see launch::OmpWaitPolicy; empty: no worker has started
  Json batch_size = nullptr;  // the size that loader.batch_size=auto resolved to, and why
  Json split = nullptr;       // dataset.split and the file that lists its samples; null: no split
  Json plugins = Json::array();  // plug-in files, see plugin_files()
  Machine machine = {};
  GitState git = {};
};

/// Returns manifest.json of a run whose workers have reported `record` so far. Only environment
/// variables on an allow-list are recorded, so that no secret is written.
Json manifest(const ManifestInput& input, const report::RunRecord& record);

/// Returns the state of the repository that contains `folder`. Runs git if it is installed, for at
/// most one second.
GitState git_state(const fs::path& folder);

// Files that a start writes into its run folder, for the workers and for people.

/// Writes config.yaml as the user wrote it and config.resolved.yaml. Throws Error(resource), like
/// all functions below.
void write_config(const Start& start, const fs::path& folder);

/// Writes the workers' task, and removes the task of an earlier start. Plain training has no task
/// file.
void write_task(const spec::Task& task, const fs::path& folder);

/// Environment variable with the folder of the original experiment file, for configs that lie
/// elsewhere, such as those of a sweep's runs.
inline constexpr const char* kSourceFolder = "TRAINCTL_SOURCE_FOLDER";

/// Returns the folder of the experiment file that the user wrote; the manifest records its git
/// state.
fs::path source_folder(const fs::path& config_file);

/// Returns the manifest input that follows from the start alone, without time, plug-ins and
/// threads.
ManifestInput manifest_before(const Start& start);

/// Converts weights of other formats to safetensors once for all ranks, because a worker only maps
/// safetensors. Also throws what the reader throws for a file that cannot be used.
void import_weights(const RunRequest& request, const fs::path& folder);

/// Returns the files of the loaded plug-ins with the XXH3-64 digests of their bytes. Throws
/// Error(config) when a file cannot be read.
Json plugin_files(const std::vector<fs::path>& libraries);

}  // namespace trainctl::study
