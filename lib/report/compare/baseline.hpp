#pragma once

#include "base/machine/machine.hpp"
#include "report/compare/bench.hpp"

namespace trainctl::report {

/// Returns the properties of a machine that determine the speed of a run: {cpu, cores, memory_gib,
/// gpus, hash}.
Json machine_key(const Machine& machine);

/// Returns the same for the machine that a manifest records, without a hash; null if it records
/// none.
Json machine_of_manifest(const Json& manifest);

/// Returns one text like "cores: 16 there, 2 here" for each difference between two keys; empty if
/// there are none. A value that is missing in one key is no difference, but a key without any
/// values is one.
std::vector<std::string> machine_differences(const Json& there, const Json& here,
                                             const std::string& there_name = "the baseline",
                                             const std::string& here_name = "this bench");

/// One setting of a saved bench.
struct BaselineRow {
  std::string technique;
  std::map<std::string, std::string> settings = {};  // key -> value as YAML
  Samples samples = {};
};

/// The reference of later benches: a file of `bench --save`, or a run folder as a single row.
struct Baseline {
  std::string path;                     // as given on the command line
  Json machine = nullptr;               // machine_key(); null: unknown
  std::string config_resolved = {};     // YAML; empty: unknown
  std::optional<int> num_threads = {};  // CPU threads per process, if the bench pinned them
  /// The memory format (true: channels last) by study::layout_inputs(), for the settings where it
  /// was chosen.
  std::map<std::string, bool> channels_last = {};
  std::vector<BaselineRow> rows = {};
};

/// Parses "trainctl.bench/2". Throws Error(config) that names `path` and the problem: another
/// schema, a wrong type, no runs.
Baseline read_baseline(const std::string& text, const std::string& path);

/// Returns the row with these settings, or else the only row if it has no settings; nullptr if
/// there is neither.
const BaselineRow* row_for(const Baseline& baseline,
                           const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace trainctl::report
