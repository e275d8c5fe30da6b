#pragma once

#include "base/json.hpp"
#include "events/records.hpp"

#include <array>
#include <string>
#include <string_view>

namespace trainctl::events {

/// Returns one line of JSON without the newline: {"event": "epoch_ended", ...}. Non-finite numbers
/// become the strings "nan", "inf" and "-inf".
std::string encode(const Event& event);

/// Parses a line. Throws Error(unexpected) if it is not an event: the worker is part of trainctl,
/// so an invalid line is a bug.
Event decode(std::string_view line);

inline constexpr std::array kPhases{Phase::startup,    Phase::train,    Phase::validate,
                                    Phase::checkpoint, Phase::shutdown, Phase::load};
/// Returns "train" etc.; "unknown" for a value outside the enum, which shared memory may contain.
const char* phase_name(Phase phase);

/// These conversions are shared with other documents (result.json, bench.json).
Json to_json(const Timing& timing);
Json to_json(const std::vector<TensorSummary>& summaries);

}  // namespace trainctl::events
