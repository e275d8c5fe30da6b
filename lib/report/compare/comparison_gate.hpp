#pragma once

#include "report/compare/baseline.hpp"
#include "report/compare/comparison.hpp"
#include "report/compare/gate.hpp"

#include <span>
#include <string>
#include <vector>

// Runs and benches that are there already, as the sides of a gate.

namespace trainctl::report {

/// What conditions may name beside kMeasures.
std::vector<std::string> gate_metrics(const Compared& runs);
std::vector<std::string> gate_metrics(std::span<const Baseline> benches);

/// Each group of runs but the first against the first: by pairs where both have the same seeds,
/// each once, else apart. `wall_s` is `total_s`, too. A number that one run of a group does not
/// tell is left out of that group.
std::vector<Contest> contests_of(const Compared& runs);

/// Each setting of all benches but the first against the row of the first that has it, apart.
/// Settings that the first has not are left out. Throws Error(config) where it has none of them.
std::vector<Contest> contests_of(std::span<const Baseline> benches);

/// Which groups were not made on the machine of the first run, or do not say so, a sentence each.
std::vector<std::string> machines_apart(const Compared& compared);

/// Whether a condition is about time or memory, which are those of a machine.
bool is_of_machine(const Condition& condition);

}  // namespace trainctl::report
