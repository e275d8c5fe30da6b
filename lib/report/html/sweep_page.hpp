#pragma once

#include "report/record/run_files.hpp"

namespace trainctl::report {

/// A run of a sweep with the files of its folder.
struct SweptRun {
  std::string id;
  RunFiles files;
};
/// Returns the runs of a document "trainctl.sweep/2" whose folders exist: at the recorded path, or
/// else next to `folder`, the sweep's own folder.
std::vector<SweptRun> swept_runs(const Json& sweep, const fs::path& folder);

/// The metric by which a sweep is ranked: its `objective`, `metric` or `monitor`, else val/loss or
/// the first metric that its runs report; and whether lower is better.
struct Objective {
  std::string metric;
  bool lowest = true;
};
/// Returns the objective of a document "trainctl.sweep/2".
Objective objective_of(const Json& sweep);

/// Returns the page of a document "trainctl.sweep/2": results, parallel coordinates, learning
/// curves of the runs whose folders exist. Throws Error(config) for another document.
std::string sweep_page(const Json& sweep, const std::vector<SweptRun>& runs,
                       const std::string& title);

}  // namespace trainctl::report
