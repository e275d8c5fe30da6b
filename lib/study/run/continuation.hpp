#pragma once

#include "events/records.hpp"
#include "spec/load.hpp"
#include "study/resume/resume.hpp"

#include <map>
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

}  // namespace trainctl::study
