#pragma once

#include "base/json.hpp"
#include "report/html/html.hpp"
#include "report/record/run_files.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::report {

/// A run of a sweep with what its folder holds.
struct SweptRun {
  std::string id;
  RunFiles files;
};
/// The runs of a document "trainctl.sweep/1" whose folders are there: where it says, else beside
/// `folder`, the sweep's own.
std::vector<SweptRun> swept_runs(const Json& sweep, const fs::path& folder);

/// Of a document "trainctl.sweep/1": results, parallel coordinates, learning curves of the runs
/// whose folders are there. Throws Error(config) where it is none.
std::string sweep_page(const Json& sweep, const std::vector<SweptRun>& runs,
                       const std::string& title);

/// The metric by which a sweep is judged: its `objective` or `metric`, else val/loss or the first
/// that its runs tell; and whether the lowest is the best.
struct Objective {
  std::string metric;
  bool lowest = true;
};
Objective objective_of(const Json& sweep);

// What the sections of a sweep's page read of its document, and its ranked table.

/// Key of the experiment file -> value, as a run or a row of the summary tells it.
using ToldOverrides = std::vector<std::pair<std::string, std::string>>;
/// Of {"overrides": {"optimizer.lr": 0.1}} or {"overrides": ["optimizer.lr=0.1"]}.
ToldOverrides overrides_of(const Json& run);
/// Keys that differ between `rows`, or all where none does.
std::set<std::string> varied_keys(const Json& rows);
/// "optimizer.lr=0.1, model.type=cnn", of those keys.
std::string setting_text(const Json& row, const std::set<std::string>& keys);

/// A row a setting, as the sweep ranks them. Nothing where it has no summary.
Html sweep_summary(const Json& sweep, const std::string& metric);

// How the runs of a sweep's document differ, and how they compare.

std::string run_id_of(const Json& run);
/// Empty where the run was not given the key.
std::string override_of(const Json& run, const std::string& key);
/// Keys that the runs were given, in their order.
std::vector<std::string> keys_of(const Json& runs);

/// Of the best epoch, by which the sweep itself ranks; else of the last. NaN where it told none.
double result_of(const Json& run, const Objective& objective);
/// 0 of the best, 1 of the worst, by their order: one that diverged does not hide the others.
std::vector<double> shades_of(const Json& runs, const Objective& objective);

/// Settings and results as parallel coordinates: an axis a key, a line a run.
Html sweep_parallel(const Json& runs, const Objective& objective);

}  // namespace trainctl::report
