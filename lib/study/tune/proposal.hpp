#pragma once

#include "study/tune/candidates.hpp"

#include <optional>

namespace trainctl::study {

/// The setting that the verdict proposes itself, as a candidate; nothing where it is none that tune
/// may try, or there is none. `found`: what the table of rules offers.
std::optional<TuneCandidate> proposed(const TuneSituation& now, const TuneCandidates& found);

}  // namespace trainctl::study
