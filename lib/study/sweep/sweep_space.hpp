#pragma once

#include "report/search/sweep.hpp"
#include "study/bench/trials.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The settings of a sweep: listed, combined or drawn. These are pure functions.

namespace trainctl::study {

/// The largest number of runs in a sweep.
inline constexpr std::size_t kMostSweepRuns = 10'000;

enum class Spread { listed, uniform, logarithmic };

/// One key, and how its values are chosen.
struct Dimension {
  Axis axis;  // the listed values, if any
  Spread spread = Spread::listed;
  double low = 0;  // otherwise drawn between low and high
  double high = 0;
};

/// Returns whether an override varies its key: "k=a,b", "k=range(1,9)", "k=choice(a,b)",
/// "k=uniform(0,1)", "k=log(1e-4,0.1)".
bool is_dimension(std::string_view word);
/// Parses such an override. Signs before the key stay: "+k=1,2". Throws Error(config).
Dimension parse_dimension(std::string_view word);

/// Returns the value of the dimension for `unit` in [0, 1): listed values have equal shares; drawn
/// values have six digits.
std::string value_at(const Dimension& dimension, double unit);

using Settings = std::vector<report::Overrides>;

/// Returns every combination; the last key varies fastest. Throws Error(config) when a value is to
/// be drawn, a key is given twice, or there are more than 1,000 combinations.
Settings grid_settings(std::span<const Dimension> dimensions);
/// Draws `count` settings. Each value depends only on (seed, key, index), so a larger count keeps
/// the first settings.
Settings random_settings(std::span<const Dimension> dimensions, std::size_t count,
                         std::uint64_t seed);
/// Draws a Latin hypercube (McKay et al. 1979): each key's range has `count` equal parts, and every
/// part is used once. A different count gives a different hypercube.
Settings latin_hypercube(std::span<const Dimension> dimensions, std::size_t count,
                         std::uint64_t seed);
/// Reads a YAML list of maps, one per run: [{optimizer.lr: 0.1, model.hidden: [32]}, ...]. Throws
/// Error(config) that names every problem.
Settings listed_settings(const std::filesystem::path& file);

}  // namespace trainctl::study
