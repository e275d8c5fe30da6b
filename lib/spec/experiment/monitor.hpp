#pragma once

#include "spec/experiment/enums.hpp"
#include "spec/experiment/experiment.hpp"

#include <string>
#include <vector>

namespace trainctl::spec {

/// Returns whether validation runs: there is a validation split, and its limit is not 0 batches.
bool validates(const Experiment& experiment);

/// Returns the name of a metric in tables and monitors: "accuracy", "top_5_accuracy".
std::string metric_name(const config::Stage& metric);

/// Returns every value that a monitor may name: train/loss, train/<metric>, and val/... if
/// validation runs.
std::vector<std::string> monitored_values(const Experiment& experiment);

/// Returns the value that selects the best weights: the checkpoint's monitor, else that of early
/// stopping, else the loss.
std::string checkpoint_monitor(const Experiment& experiment);

/// Returns min for losses and max for accuracies.
Mode mode_for(const std::string& monitor);
/// Returns the configured mode; auto depends on the monitor's name.
Mode resolve_mode(const config::Auto<Mode>& mode, const std::string& monitor);

}  // namespace trainctl::spec
