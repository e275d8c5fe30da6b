#include "report/text/sparkline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace trainctl::report {
namespace {

constexpr std::array kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array kAscii{"_", ".", "-", "~", "=", "+", "*", "#"};

std::vector<double> means_of(std::span<const double> values, std::size_t cells) {
  std::vector<double> means;
  for (std::size_t i = 0; i < cells; ++i) {
    const std::size_t begin = i * values.size() / cells;
    const std::size_t end = (i + 1) * values.size() / cells;
    double sum = 0;
    for (const double value : values.subspan(begin, end - begin)) sum += value;
    means.push_back(sum / static_cast<double>(end - begin));
  }
  return means;
}

Interval extent_of(const std::vector<double>& values) {
  Interval extent{std::numeric_limits<double>::infinity(),
                  -std::numeric_limits<double>::infinity()};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    extent.low = std::min(extent.low, value);
    extent.high = std::max(extent.high, value);
  }
  return extent;
}

}  // namespace

std::string sparkline(std::span<const double> values, Glyphs glyphs, const Spark& spark) {
  const std::vector<double> means =
      means_of(values, std::min(values.size(), std::max<std::size_t>(spark.width, 1)));
  const Interval scale = spark.scale.value_or(extent_of(means));
  const auto& heights = glyphs == Glyphs::unicode ? kBlocks : kAscii;
  std::string line;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      line += spark.gap;
      continue;
    }
    const double extent = scale.high - scale.low;
    const double place = extent > 0 ? std::clamp((mean - scale.low) / extent, 0.0, 1.0) : 0;
    line += heights.at(std::min<std::size_t>(static_cast<std::size_t>(place * 8), 7));
  }
  return line;
}

}  // namespace trainctl::report
