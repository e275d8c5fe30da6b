#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"
#include "spec/experiment/experiment.hpp"

#include <string>
#include <vector>

namespace trainctl::spec {

/// Whether validation runs at all: there is a split, and no limit of 0 batches.
bool validates(const Experiment& experiment);

/// The name of a metric in tables and monitors: "accuracy", "top_5_accuracy".
std::string metric_name(const config::Stage& metric);

/// Every value a monitor may name: train/loss, train/<metric>, and val/... where there is a
/// validation split.
std::vector<std::string> monitored_values(const Experiment& experiment);

/// The value that decides which weights are best: the checkpoint's monitor, else early stopping's,
/// else the loss.
std::string checkpoint_monitor(const Experiment& experiment);

/// min for losses, max for accuracies.
Mode mode_for(const std::string& monitor);
/// The mode that was asked for; auto goes by the name.
Mode resolve_mode(const config::Auto<Mode>& mode, const std::string& monitor);

}  // namespace trainctl::spec
