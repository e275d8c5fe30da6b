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

struct GitState {
  std::string commit;  // empty: not in a repository
  std::string status;  // "clean", "modified"
};

/// What is known of a run before its workers report, for its manifest.
struct ManifestInput {
  std::vector<std::string> argv = {};
  fs::path config_file = {};
  std::string version = {};
  std::string started_at = {};
  std::map<std::string, std::string> data_fingerprints = {};  // split -> hex, of an earlier start
  std::string thread_waiting =
      {};                        // "spin" or "sleep", see launch::Waiting; empty: none has started
  Json batch_size = nullptr;     // what loader.batch_size: auto became, and why
  Json split = nullptr;          // dataset.split and the file with its samples; null: none
  Json plugins = Json::array();  // their files, see plugin_files()
  Machine machine = {};
  GitState git = {};
};

/// manifest.json of a run whose workers have reported `record` so far. Of the environment only an
/// allow-list of names is kept, so no secret can slip in.
Json manifest(const ManifestInput& input, const report::RunRecord& record);

/// State of the repository that holds `folder`; asks git where it is installed, within a second.
GitState git_state(const fs::path& folder);

// What a start writes into the folder of its run, for the workers and for people.

/// config.yaml as it was written, and config.resolved.yaml. Throws Error(resource), as do all here.
void write_config(const Start& start, const fs::path& folder);

/// The workers' task; none for plain training. That of an earlier start goes.
void write_task(const spec::Task& task, const fs::path& folder);

/// Names the folder of the experiment that a run's config was made of, where that lies elsewhere,
/// as the configs of a sweep's runs do.
inline constexpr const char* kSourceFolder = "TRAINCTL_SOURCE_FOLDER";

/// The folder of the experiment as a person has written it, whose git state a manifest tells.
fs::path source_folder(const fs::path& config_file);

/// The manifest's input by the start alone; without time, plug-ins and threads.
ManifestInput manifest_before(const Start& start);

/// A worker maps safetensors alone: what else the weights may be is read here, once for all ranks.
/// Throws also what the reader does of a file that cannot be used.
void import_weights(const RunRequest& request, const fs::path& folder);

/// The files of these plug-ins, which are loaded, with the XXH3-64 of their bytes: what a run was
/// made with. Throws Error(config) for a file that cannot be read.
Json plugin_files(const std::vector<fs::path>& libraries);

}  // namespace trainctl::study
