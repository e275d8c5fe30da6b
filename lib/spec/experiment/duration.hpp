#pragma once

#include <optional>
#include <string_view>

namespace trainctl::spec {

/// Seconds of a span of time: "DD:HH:MM:SS" as in Lightning, "HH:MM:SS", or numbers with units as
/// in "90s", "30m", "1h30m", "2d". Nothing where the text is neither, or not above zero.
std::optional<double> parse_duration(std::string_view text);

}  // namespace trainctl::spec
