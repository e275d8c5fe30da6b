#pragma once

#include "report/compare/bench_scaling.hpp"
#include "study/bench/parameter_grid.hpp"
#include "study/bench/trials.hpp"
#include "study/run/run.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// What `trainctl bench` compares.
struct BenchOptions {
  std::vector<Axis> axes;                  // the first one is the outermost of the table
  std::string against;                     // a patch, as tune writes it; empty: none
  std::optional<report::Scaling> scaling;  // absent: weak, where devices are compared
  fs::path root = "runs";                  // of the runs
  std::string fail_on;                     // conditions; empty: none
  fs::path baseline;                       // that they compare with; empty: the first row
  bool force_baseline = false;             // also one of another machine or config
};

/// A bench before its runs: what is compared, and the run of each setting.
struct BenchPlan {
  std::vector<Setting> settings;
  std::vector<RunRequest> requests;  // one a setting
};

/// Reads and checks every setting before the first process starts. Throws Error.
BenchPlan plan_bench(const BenchOptions& options, const Invocation& invocation,
                     config::Diagnostics& diagnostics);

/// The keys that differ between settings.
std::vector<std::string> varied_keys(const BenchPlan& plan);

/// What the runs of a baseline had, which those of the bench take over without a warm-up: the
/// threads where all settings have as many devices, a memory format where a setting has its
/// layout_inputs().
struct Pinning {
  std::optional<int> threads = {};
  std::map<std::string, bool> layouts = {};
};

struct BenchRows {
  std::vector<report::BenchRow> rows;
  WarmUp warm_up;                       // the first; where a signal ended it there are no rows
  std::map<std::string, bool> layouts;  // trainer.channels_last of the runs, by layout_inputs()
};

/// Makes the runs. Left to itself every run measures how many threads and which memory format of
/// images are best, and may find another answer than the row it is compared with: so one warm-up
/// run of one batch decides for all that share the cores alike, and for all of the same model, data
/// and precision. Where it fails, the runs of its rows report why. A run that is not over at the
/// end of the rounds is killed, and no other is started.
BenchRows run_bench(BenchPlan plan, const Pinning& pinning, const Rounds& rounds,
                    const PrintLine& print);

}  // namespace trainctl::study
