#pragma once

#include "base/files.hpp"

namespace trainctl::study {

/// Removes what the processes of a run, which are gone, had not finished to write, in the folders
/// below as well: ".NAME.tmp.PID" and ".NAME.reserved.PID", but nothing of this process, and the
/// checkpoints that were begun and not committed. For whoever holds the lock of the folder. What
/// cannot be removed stays.
void remove_unfinished(const fs::path& run_dir);

}  // namespace trainctl::study
