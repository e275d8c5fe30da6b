#pragma once

#include "bench/flags.hpp"
#include "cli/context.hpp"
#include "study/bench/parameter_grid.hpp"
#include "study/bench/trials.hpp"
#include "study/run/run.hpp"

#include <map>
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
/// run fails, those of its rows will tell why. `threads` and `layouts` are those of the baseline,
/// which are taken without a run: the number where all settings have as many devices, a format
/// where the settings have its study::layout_inputs(). A run that is not
/// over at `ends_at` of the clock is killed, and no other is started.
struct Pinning {
  std::optional<int> threads = {};
  std::map<std::string, bool> layouts = {};
  std::optional<double> ends_at = {};
};
struct Pinned {
  study::WarmUp warm_up;                // the first
  std::map<std::string, bool> layouts;  // trainer.channels_last by study::layout_inputs()
};
Pinned pin_choices(const BenchFlags& flags, BenchPlan& plan, const Pinning& pinning,
                   Context& context);

/// A line on stderr, unless nothing is to be said of the progress.
void say(const Context& context, const std::string& line);

}  // namespace trainctl::app
