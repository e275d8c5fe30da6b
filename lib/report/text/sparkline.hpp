#pragma once

#include "report/compare/speedup.hpp"
#include "report/text/format.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace trainctl::report {

struct Spark {
  std::size_t width = 48;           // signs at most
  std::optional<Interval> scale{};  // absent: from the lowest to the highest
  char gap = '!';                   // of what is not finite
};
/// Eight heights of blocks, or of ASCII signs: one for each value, or for the mean of neighbours.
std::string sparkline(std::span<const double> values, Glyphs glyphs, const Spark& spark = {});

}  // namespace trainctl::report
