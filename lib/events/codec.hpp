#pragma once

#include "base/json.hpp"
#include "events/records.hpp"

#include <array>
#include <string>
#include <string_view>

namespace trainctl::events {

/// One line of JSON without the newline: {"event": "epoch_ended", ...}. Non-finite numbers travel
/// as the strings "nan", "inf", "-inf".
std::string encode(const Event& event);

/// Throws Error(unexpected) on a line that is not an event: the worker is ours, a bad line is our
/// bug.
Event decode(std::string_view line);

inline constexpr std::array kPhases{Phase::startup,    Phase::train,    Phase::validate,
                                    Phase::checkpoint, Phase::shutdown, Phase::load};
/// "train"; "unknown" for a value outside the enum (a page of shared memory may hold anything).
const char* phase_name(Phase phase);

/// The parts that other documents share (result.json, bench.json).
Json to_json(const Timing& timing);
Json to_json(const Metrics& metrics);
Json to_json(const std::vector<TensorSummary>& summaries);

}  // namespace trainctl::events
