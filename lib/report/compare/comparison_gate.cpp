#include "report/compare/comparison_gate.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace trainctl::report {
namespace {

bool is_own_name(const std::string& name) {
  return std::ranges::find(kMeasures, name) != kMeasures.end();
}

std::vector<Measures> sorted_by_seed(std::vector<Measures> members) {
  std::ranges::sort(members, {}, &Measures::seed);
  return members;
}

/// Whether both have the same seeds, each once. Their members are sorted.
bool are_pairs(const std::vector<Measures>& base, const std::vector<Measures>& now) {
  const auto is_twice = [](const std::vector<Measures>& members) {
    return std::ranges::adjacent_find(members, {}, &Measures::seed) != members.end();
  };
  const bool known = !base.empty() && !base.front().seed.empty();
  return known && !is_twice(base) &&
         std::ranges::equal(base, now, {}, &Measures::seed, &Measures::seed);
}

Samples samples_of(const std::vector<Measures>& members) {
  Samples samples;
  for (const Measures& member : members) {
    for (const auto& [name, value] : member.values) samples[name].push_back(value);
  }
  std::erase_if(samples, [&](const auto& each) { return each.second.size() != members.size(); });
  if (const auto wall = samples.find("wall_s"); wall != samples.end())
    samples.emplace("total_s", wall->second);
  return samples;
}

/// Of each run, or the one of a bench.
std::vector<Json> machines_of(const Group& group) {
  std::vector<Json> machines;
  for (const RunFiles& run : group.runs) machines.push_back(machine_of_manifest(run.manifest));
  if (machines.empty()) machines.push_back(group.machine);
  return machines;
}

std::vector<std::pair<std::string, std::string>> settings_of(const BaselineRow& row) {
  return {row.settings.begin(), row.settings.end()};
}

}  // namespace

std::vector<std::string> gate_metrics(const Compared& runs) {
  std::vector<std::string> names = measure_names(runs);
  std::erase_if(names, is_own_name);
  return names;
}

std::vector<std::string> gate_metrics(std::span<const Baseline> benches) {
  std::set<std::string> names;
  for (const Baseline& bench : benches) {
    for (const BaselineRow& row : bench.rows) {
      for (const auto& [name, values] : row.samples) names.insert(name);
    }
  }
  std::erase_if(names, is_own_name);
  return {names.begin(), names.end()};
}

std::vector<Contest> contests_of(const Compared& runs) {
  std::vector<Contest> contests;
  const Group& first = runs.groups.front();
  const std::vector<Measures> base = sorted_by_seed(first.members);
  for (const Group& group : std::span(runs.groups).subspan(1)) {
    const std::vector<Measures> now = sorted_by_seed(group.members);
    contests.push_back({.technique = group.label,
                        .against = "'" + first.label + "'",
                        .base = samples_of(base),
                        .now = samples_of(now),
                        .pairing = are_pairs(base, now) ? Pairing::interleaved : Pairing::apart});
  }
  return contests;
}

std::vector<Contest> contests_of(std::span<const Baseline> benches) {
  std::vector<Contest> contests;
  const Baseline& first = benches.front();
  for (const Baseline& bench : benches.subspan(1)) {
    for (const BaselineRow& row : bench.rows) {
      const BaselineRow* base = row_for(first, settings_of(row));
      if (base == nullptr) continue;
      contests.push_back({.technique = fmt::format("{} of {}", row.technique, bench.path),
                          .against = fmt::format("'{}' of {}", base->technique, first.path),
                          .base = base->samples,
                          .now = row.samples,
                          .pairing = Pairing::apart});
    }
  }
  ENSURE(config, !contests.empty(), "{} has none of the settings of the others: nothing to judge",
         printable(first.path));
  return contests;
}

std::vector<std::string> machines_apart(const Compared& compared) {
  std::vector<std::string> sentences;
  const Group& first = compared.groups.front();
  const Json there = machines_of(first).front();
  for (const Group& group : compared.groups) {
    const bool is_first = &group == &first;
    const std::string other =
        is_first ? "another run of '" + first.label + "'" : "'" + group.label + "'";
    const std::vector<Json> machines = machines_of(group);
    for (const Json& here : std::span(machines).subspan(is_first ? 1 : 0)) {
      const auto differences = machine_differences(there, here);
      if (differences.empty()) continue;
      sentences.push_back(fmt::format("the speeds of '{}' (there) and {} (here) do not compare: {}",
                                      first.label, other, join(differences, "; ")));
      break;
    }
  }
  return sentences;
}

bool is_of_machine(const Condition& condition) {
  return is_own_name(condition.metric) || condition.metric == "wall_s" ||
         condition.metric == "gpu_util";
}

}  // namespace trainctl::report
