#pragma once

#include "bench_flags.hpp"
#include "context.hpp"
#include "study/grid.hpp"
#include "study/run.hpp"
#include "study/trial.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::app {

/// A bench before its runs: what is compared, and the run of each setting.
struct BenchPlan {
  std::vector<study::Setting> settings;
  std::vector<study::RunRequest> requests;  // one a setting
};

/// Reads and checks every setting before the first process starts. Throws Error.
BenchPlan plan_bench(const BenchFlags& flags, Context& context);

/// The keys that differ between settings.
std::vector<std::string> varied_keys(const BenchPlan& plan);

/// Left to itself every run measures how many threads and which memory format of images are best,
/// and may find another answer than the row it is compared with: one run of one batch decides for
/// all that share the cores alike, and for all of the same model, data and precision. Where that
/// run fails, those of its rows will tell why. `known` is the number of the baseline: where all
/// settings have as many devices, it is taken without a run. A run that goes on at `ends_at` of the
/// clock is killed, and none follows it.
struct Pinning {
  std::optional<int> known = {};
  std::optional<double> ends_at = {};
};
study::WarmUp pin_choices(const BenchFlags& flags, BenchPlan& plan, const Pinning& pinning,
                          Context& context);

/// A line on stderr, unless nothing is to be said of the progress.
void say(const Context& context, const std::string& line);

}  // namespace trainctl::app
