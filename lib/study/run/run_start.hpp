#pragma once

#include "base/files.hpp"
#include "checkpoint/folder.hpp"
#include "events/records.hpp"
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

}  // namespace trainctl::study
