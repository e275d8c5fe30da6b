#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "report/record/run_record.hpp"
#include "spec/experiment/task.hpp"
#include "study/run/run_start.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainctl::study {

/// CPU threads of a worker, and why so many.
struct Threads {
  int number = 0;  // 0: not known yet
  std::string why;
  bool contended = false;  // others took the cores while the number was chosen
};

/// What `loader.batch_size: auto` became, and why.
struct FoundBatch {
  std::int64_t size = 0;  // 0: it was not auto
  std::string why;
};

/// Loader threads of a worker, their batches ahead, and why so many.
struct Workers {
  int number = 0;
  int prefetch_factor = 0;  // 0: not known yet
  std::string why;
};

/// Whether images had the channels last in memory, and why.
struct Layout {
  bool channels_last = false;
  std::string why;  // empty: not known yet
};

/// What `trainer.activation_checkpointing: auto` became, and why.
struct Recomputes {
  bool blocks = false;
  std::string why;  // empty: it was not auto
};

struct GitState {
  std::string commit;  // empty: not in a repository
  std::string status;  // "clean", "modified"
};

/// What is needed to say later under what a run was made.
struct ManifestInput {
  std::vector<std::string> argv;
  fs::path config_file;
  std::string version;
  std::string started_at;
  std::map<std::string, std::string> library_versions;   // as the worker reported them
  std::map<std::string, std::string> data_fingerprints;  // split -> hex
  Threads threads;
  std::string thread_waiting;  // "spin" or "sleep", see launch::Waiting; empty: none has started
  Workers workers;
  FoundBatch batch_size;
  Recomputes recomputes;
  Layout layout;
  std::string allocator;         // that answers malloc in the worker; empty: not known yet
  Json split = nullptr;          // dataset.split and the file with its samples; null: none
  Json plugins = Json::array();  // their files, see plugin_files()
  Json weights = nullptr;        // what the training started from; null: what the seed draws
  Machine machine;
  GitState git;
};

/// manifest.json. Of the environment only an allow-list of names is kept, so no secret can slip in.
Json manifest(const ManifestInput& input);

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

/// What a manifest tells before any worker has said a word; without time, plug-ins and threads.
ManifestInput manifest_before(const Start& start);

/// manifest.json, with what the workers have told by now.
void write_manifest(ManifestInput input, const report::RunRecord& record, const fs::path& folder);

/// A worker maps safetensors alone: what else the weights may be is read here, once for all ranks.
/// Throws also what the reader does of a file that cannot be used.
void import_weights(const RunRequest& request, const fs::path& folder);

/// The files of these plug-ins, which are loaded, with the XXH3-64 of their bytes: what a run was
/// made with. Throws Error(config) for a file that cannot be read.
Json plugin_files(const std::vector<fs::path>& libraries);

}  // namespace trainctl::study
