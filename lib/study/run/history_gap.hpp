#pragma once

#include "base/files.hpp"
#include "checkpoint/names.hpp"
#include "study/resume/run_history.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::study {

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
