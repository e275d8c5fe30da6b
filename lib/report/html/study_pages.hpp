#pragma once

#include "report/compare/comparison.hpp"
#include "report/record/run_files.hpp"

// Pages about more than one run.

namespace trainctl::report {

std::string comparison_page(const Compared& compared);

/// Of a document "trainctl.bench/1": total times and speed-ups with their intervals, losses, rows.
/// Throws Error(config) where it is none.
std::string bench_page(const Json& bench, const std::string& title);

/// A run of a sweep with what its folder holds.
struct SweptRun {
  std::string id;
  RunFiles files;
};
/// The runs of a document "trainctl.sweep/1" whose folders are there: where it says, else beside
/// `folder`, the sweep's own.
std::vector<SweptRun> swept_runs(const Json& sweep, const fs::path& folder);

/// The metric by which a sweep is ranked: its `objective` or `metric`, else val/loss or the first
/// that its runs report; and whether the lowest is the best.
struct Objective {
  std::string metric;
  bool lowest = true;
};
Objective objective_of(const Json& sweep);

/// Of a document "trainctl.sweep/1": results, parallel coordinates, learning curves of the runs
/// whose folders are there. Throws Error(config) where it is none.
std::string sweep_page(const Json& sweep, const std::vector<SweptRun>& runs,
                       const std::string& title);

}  // namespace trainctl::report
