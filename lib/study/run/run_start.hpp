#pragma once

#include "study/run/continuation.hpp"
#include "study/run/restarts.hpp"
#include "study/run/run.hpp"

namespace trainctl::study {

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

}  // namespace trainctl::study
