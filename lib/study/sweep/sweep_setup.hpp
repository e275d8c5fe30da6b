#pragma once

#include "study/folder/run_folder.hpp"
#include "study/sweep/ledger.hpp"
#include "study/sweep/planned_sweep.hpp"

#include <filesystem>
#include <string>

namespace trainctl::study {

/// Makes the folder of a sweep and locks it: --out; else that of the newest sweep of this name
/// where it is to be resumed, or a new one. Throws Error(resource) where a sweep is at work in it:
/// two on one ledger would start its runs twice.
RunFolder sweep_folder(const SweepOptions& options, const std::string& name);

enum class Todo { nothing, runs };

/// The ledger has the definition from here on, and runs that are done are ranked by what is asked
/// for now. Throws Error(config) where it has another, or is not done, and nobody has said
/// --resume; also with --resume where its runs were stopped by other rules of --asha.
Todo prepare(Ledger& ledger, const PlannedSweep& sweep, const SweepOptions& options,
             const std::filesystem::path& folder);

}  // namespace trainctl::study
