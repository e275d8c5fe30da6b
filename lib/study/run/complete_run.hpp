#pragma once

#include "study/run/run.hpp"

#include <optional>

namespace trainctl::study {

/// The outcome of a run that ended well and whose checkpoint is at its end: by trainer.max_epochs,
/// max_steps, max_time, early stopping or --until-epoch. `result` is its result.json. Nothing where
/// there is something left to train.
std::optional<RunOutcome> complete_run(const RunRequest& request, const fs::path& run_dir,
                                       const Origin& origin);

}  // namespace trainctl::study
