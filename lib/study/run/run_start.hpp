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

/// What a start of a run takes from those before it; empty where it is the first.
struct Continuation {
  Origin origin;
  double wall_s = 0;                                // of the starts before this one
  bool in_place = false;                            // the folder has been a run's before
  std::vector<std::string> notices;                 // to be said as warnings
  std::string not_bitwise;                          // changes of the config that see to that
  std::map<std::string, std::string> fingerprints;  // of the data; empty: nothing to compare with
  std::vector<events::EpochEnded> epochs;           // complete by then, as epochs.csv tells
};

/// Throws Error(config) naming the values that differ from those of the checkpoint and cannot
/// change in a resumed run.
void expect_same_experiment(const spec::Loaded& loaded, const fs::path& run_dir,
                            const Origin& origin, int world_size);

/// Readies the folder for a start at `origin`: compares the configs, says which damaged checkpoints
/// are left out, what has changed and what the tables lack, and puts aside what lies behind it;
/// until a worker says that it has resumed, take_back() undoes that. Throws Error(config) naming
/// the values that cannot change, before anything is touched; Error(checkpoint), Error(resource).
///
/// `world_size`: ranks of this start; 0: not known.
Continuation continue_run(const spec::Loaded& loaded, const fs::path& run_dir, Origin origin,
                          int world_size = 0);

/// A start of the run: what is asked for, and what came before it.
struct Start {
  RunRequest request;
  Continuation past;
};

/// Returns the number of ranks that a start will have, or 0 if the devices cannot be asked: the
/// start itself will say why.
int world_size_of(const RunRequest& request);

/// The checkpoint that `--resume` means in this folder; without the flag, the first step. Throws as
/// choose_checkpoint().
Origin first_origin(const RunRequest& request, const fs::path& folder);

/// The first start in this folder, at its first_origin(). Throws as continue_run().
Start first_start(const RunRequest& request, const fs::path& folder, Origin origin);

/// The one that restarts.next() asks for. Throws as continue_run().
Start restarted(const RunRequest& request, const fs::path& folder, const Restarts& restarts);

/// What the last start of a run has done, and its tables must tell.
struct Told {
  checkpoint::Moment from;     // where it began or went on
  Point to;                    // its checkpoint
  std::int64_t log_every = 0;  // steps between two lines of metrics.jsonl; 0: that is not known
};

/// Where the last start in this folder began or went on, by its result.json; nothing where that
/// does not tell.
std::optional<checkpoint::Moment> last_origin(const fs::path& run_dir);

/// One warning where epochs.csv or metrics.jsonl end before the checkpoint, as after a power cut:
/// each with the last epoch or step that it has. Empty: they do not, or there is no such file.
/// Throws Error(resource).
std::string missing_history(const fs::path& run_dir, const Told& told);

}  // namespace trainctl::study
