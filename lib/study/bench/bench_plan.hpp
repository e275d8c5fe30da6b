#pragma once

#include "report/compare/bench_scaling.hpp"
#include "study/bench/trials.hpp"
#include "study/run/run.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// The options of `trainctl bench`.
struct BenchOptions {
  std::vector<Axis> axes;                  // the first axis varies slowest in the table
  std::string against;                     // a patch written by tune; empty: none
  std::optional<report::Scaling> scaling;  // absent: weak, if device counts are compared
  fs::path root = "runs";                  // parent folder of the runs
  std::string fail_on;                     // conditions; empty: none
  fs::path baseline;                       // compared with by the conditions; empty: the first row
  bool force_baseline = false;             // accept a baseline of another machine or config
};

/// A bench before its runs: the settings, and the request for each of them.
struct BenchPlan {
  std::vector<Setting> settings;
  std::vector<RunRequest> requests;  // one per setting
};

/// Loads and checks every setting before the first process starts. Throws Error.
BenchPlan plan_bench(const BenchOptions& options, const Invocation& invocation,
                     config::Diagnostics& diagnostics);

/// Returns the keys that differ between settings.
std::vector<std::string> varied_keys(const BenchPlan& plan);

/// Choices of a baseline's runs, which the runs of the bench use without a warm-up: the number of
/// threads if all settings have the same number of devices, and a memory format for each setting
/// with the same layout_inputs().
struct Pinning {
  std::optional<int> threads = {};
  std::map<std::string, bool> layouts = {};
};

/// The result of run_bench().
struct BenchRows {
  std::vector<report::BenchRow> rows;
  WarmUp warm_up;  // the first warm-up; if a signal ended it, there are no rows
  std::map<std::string, bool> layouts;  // trainer.channels_last of the runs, by layout_inputs()
};

/// Makes the runs. By default each run measures the best number of threads and memory format
/// itself, and may choose differently from the row that it is compared with. Therefore one warm-up
/// run of one batch decides for all settings that share the cores in the same way, and for all
/// settings with the same model, data and precision. If the warm-up fails, the runs of its rows
/// report why. A run that is not finished at the end of the rounds is killed, and no other run is
/// started.
BenchRows run_bench(BenchPlan plan, const Pinning& pinning, const Rounds& rounds,
                    const PrintLine& print);

}  // namespace trainctl::study
