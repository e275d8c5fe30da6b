#pragma once

#include "study/continuation.hpp"
#include "study/restarts.hpp"
#include "study/run.hpp"

namespace trainctl::study {

/// A start of the run: what is asked for, and what came before it.
struct Start {
  RunRequest request;
  Continuation past;
};

/// The first one in this folder: at the first step, or where `--resume` goes on. Throws as
/// choose_checkpoint() and continue_run().
Start first_start(const RunRequest& request, const fs::path& folder);

/// The one that restarts.next() asks for. Throws as continue_run().
Start restarted(const RunRequest& request, const fs::path& folder, const Restarts& restarts);

}  // namespace trainctl::study
