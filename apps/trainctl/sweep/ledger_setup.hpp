#pragma once

#include "study/sweep/ledger.hpp"
#include "sweep/plan.hpp"

#include <filesystem>

namespace trainctl::app {

enum class Todo { nothing, runs };

/// The ledger has the definition from here on, and runs that are done are ranked by what is asked
/// for now. Throws Error(config) where it has another, or is not done, and nobody has said
/// --resume; also with --resume where its runs were stopped by other rules of --asha.
Todo prepare(study::Ledger& ledger, const PlannedSweep& sweep, const SweepFlags& flags,
             const std::filesystem::path& folder);

}  // namespace trainctl::app
