#pragma once

#include "study/sweep/space.hpp"
#include "sweep/plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

// What the command line of a sweep varies. All throw Error(config).

namespace trainctl::app {

/// The words of the command line that vary a key, and what becomes of them.
struct SweepSpace {
  std::vector<std::string> words;
  std::vector<study::Dimension> dimensions;
  std::vector<std::string> fixed;
};
SweepSpace space_of(const SweepFlags& flags);

/// grid, list, random or lhs.
std::string kind_of(const SweepFlags& flags);

study::Settings settings_of(const SweepFlags& flags, const SweepSpace& space,
                            const std::string& kind);

/// Empty: the experiment's own.
std::vector<std::uint64_t> seeds_of(const SweepFlags& flags);

}  // namespace trainctl::app
