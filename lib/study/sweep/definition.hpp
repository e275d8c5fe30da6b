#pragma once

#include "base/json.hpp"
#include "report/search/sweep.hpp"
#include "spec/load.hpp"
#include "study/bench/parameter_grid.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What makes two sweeps the same one.

namespace trainctl::study {

/// Of the resolved experiment, every default in it, without its seed: runs that differ by the seed
/// alone have the same.
std::string config_hash(const spec::Loaded& loaded);

/// Path -> value of the resolved experiment without the keys that the sweep varies, with what is
/// below them, and without the seed.
Json fixed_values(const spec::Loaded& loaded, const std::vector<std::string>& varied);

/// The key that a word of the command line names, without its signs.
std::string bare_key(const std::string& key);

/// What differs, path by path: "samples: 10 -> 20; base.optimizer.lr: 0.1 -> 0.2 and 3 more". Empty
/// where nothing does.
std::string definition_difference(const Json& before, const Json& now);

// What a sweep tries: settings that are listed, combined or drawn. Pure functions.

/// The most runs of a sweep.
inline constexpr std::size_t kMostSweepRuns = 10'000;

enum class Spread { listed, uniform, logarithmic };

/// One key, and where its values come from.
struct Dimension {
  Axis axis;  // its values where they are listed
  Spread spread = Spread::listed;
  double low = 0;  // else drawn from low to high
  double high = 0;
};

/// Whether an override varies its key: "k=a,b", "k=range(1,9)", "k=choice(a,b)", "k=uniform(0,1)",
/// "k=log(1e-4,0.1)".
bool is_dimension(std::string_view word);
/// Such a word. Signs before the key stay: "+k=1,2". Throws Error(config).
Dimension parse_dimension(std::string_view word);

/// A value of the dimension for `unit` from 0 to below 1: of listed values each has an equal share;
/// drawn ones have six digits.
std::string value_at(const Dimension& dimension, double unit);

using Settings = std::vector<report::Overrides>;

/// Every combination, the last key fastest. Throws Error(config) where a value is to be drawn, a
/// key is given twice, or there are more than 1,000.
Settings grid_settings(std::span<const Dimension> dimensions);
/// Each value of each setting is a function of (seed, key, index) alone: more samples leave the
/// first as they are.
Settings random_settings(std::span<const Dimension> dimensions, std::size_t count,
                         std::uint64_t seed);
/// A Latin hypercube (McKay et al. 1979): of the `count` equal parts of each key's range every one
/// is met once. Another count is another cube.
Settings latin_hypercube(std::span<const Dimension> dimensions, std::size_t count,
                         std::uint64_t seed);
/// Of a YAML list of maps, one a run: [{optimizer.lr: 0.1, model.hidden: [32]}, ...]. Throws
/// Error(config) that names every problem.
Settings listed_settings(const std::filesystem::path& file);

}  // namespace trainctl::study
