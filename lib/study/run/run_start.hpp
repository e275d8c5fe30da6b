#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "checkpoint/folder.hpp"
#include "events/records.hpp"
#include "report/record/run_record.hpp"
#include "spec/experiment/job.hpp"
#include "spec/load.hpp"
#include "study/resume/resume.hpp"
#include "study/resume/run_history.hpp"
#include "study/run/restarts.hpp"
#include "study/run/run.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// The state that a start of a run takes over from earlier starts; empty for the first start.
struct PriorState {
  ResumeOrigin origin;
  double wall_s = 0;                 // wall seconds of the earlier starts
  bool in_place = false;             // the folder was already that of a run
  std::vector<std::string> notices;  // printed as warnings
  std::string why_not_bitwise;  // config changes after which the run is not bitwise reproducible
  std::map<std::string, std::string> fingerprints;  // of the data; empty: nothing to compare with
  std::vector<events::EpochEnded> epochs;           // completed epochs according to epochs.csv
};

/// Throws Error(config) that names the values that differ from the checkpoint's and cannot change
/// in a resumed run.
void expect_same_experiment(const spec::Loaded& loaded, const fs::path& run_dir,
                            const ResumeOrigin& origin, int world_size);

/// Prepares the folder for a start at `origin`: compares the configs, notes damaged checkpoints,
/// changes and missing rows of the tables, and moves files and rows after the origin to
/// superseded/. restore_superseded() undoes this until a worker reports that it has resumed. Throws
/// Error(config) that names the values that cannot change before anything is written;
/// Error(checkpoint), Error(resource).
///
/// `world_size` is the number of ranks of this start; 0: unknown.
PriorState continue_run(const spec::Loaded& loaded, const fs::path& run_dir, ResumeOrigin origin,
                        int world_size = 0);

/// A start of the run: its request and the state of earlier starts.
struct Start {
  RunRequest request;
  PriorState past;
};

/// Returns the number of ranks of a start, or 0 if the devices cannot be queried; in that case the
/// start itself reports the reason.
int world_size_of(const RunRequest& request);

/// Returns the checkpoint that `--resume` selects in this folder; without the flag, the first step.
/// Throws as choose_checkpoint() does.
ResumeOrigin first_origin(const RunRequest& request, const fs::path& folder);

/// Returns the first start in this folder, at its first_origin(). Throws as continue_run() does.
Start first_start(const RunRequest& request, const fs::path& folder, ResumeOrigin origin);

/// Returns the start that restarts.next() asks for. Throws as continue_run() does.
Start restarted(const RunRequest& request, const fs::path& folder, const Restarts& restarts);

/// The range of steps that the last start of a run has made and that its tables must contain.
struct HistoryRange {
  checkpoint::Moment from;     // where the start began or resumed
  ResumePoint to;              // the checkpoint of the last start
  std::int64_t log_every = 0;  // steps between two lines of metrics.jsonl; 0: unknown
};

/// Returns where the last start in this folder began or resumed, according to its result.json;
/// nullopt if result.json does not say.
std::optional<checkpoint::Moment> last_origin(const fs::path& run_dir);

/// Returns one warning if epochs.csv or metrics.jsonl end before the checkpoint, for example after
/// a power failure, with the last epoch or step of each. Empty if they are complete or do not
/// exist. Throws Error(resource).
std::string missing_history(const fs::path& run_dir, const HistoryRange& range);

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

/// Writes the workers' job, and removes the job of an earlier start. Plain training has no job
/// file.
void write_job(const spec::Job& job, const fs::path& folder);

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
