#pragma once

#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "report/compare/bench.hpp"

namespace trainctl::report {

/// What of a machine decides how fast a run is: {cpu, cores, memory_gib, gpus, hash}.
Json machine_key(const Machine& machine);

/// The same of the machine that a manifest names, without a hash; null where it names none.
Json machine_of_manifest(const Json& manifest);

/// "cores: 16 there, 2 here", one for each difference of two keys; empty: none. A value that a key
/// does not have is no difference, but a key without any is one.
std::vector<std::string> machine_differences(const Json& there, const Json& here);

/// One setting of a bench that was saved.
struct BaselineRow {
  std::string technique;
  std::map<std::string, std::string> settings = {};  // key -> value as YAML
  Samples samples = {};
};

/// What later benches are compared with: a file of `bench --save`, or a run folder as one row.
struct Baseline {
  std::string path;                     // as it was given
  Json machine = nullptr;               // machine_key(); null: not told
  std::string config_resolved = {};     // YAML; empty: not told
  std::optional<int> num_threads = {};  // CPU threads of a process, where the bench pinned them
  /// Whether images had the channels last, by study::layout_inputs(), where that was chosen.
  std::map<std::string, bool> channels_last = {};
  std::vector<BaselineRow> rows = {};
};

/// Reads "trainctl.bench/1". Throws Error(config) that names `path` and what is wrong: another
/// schema, a wrong type, no runs.
Baseline read_baseline(const std::string& text, const std::string& path);

/// The row that has these settings, else the only one where it has no settings; nullptr: none.
const BaselineRow* row_for(const Baseline& baseline,
                           const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace trainctl::report
