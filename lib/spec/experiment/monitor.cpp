#include "spec/experiment/monitor.hpp"

#include "spec/options/metric.hpp"
#include "spec/options/stopper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

namespace trainctl::spec {

bool validates(const Experiment& experiment) {
  const Limit& limit = experiment.trainer.limit_val_batches;
  return experiment.dataset.val.has_value() && limit.of(1) > 0;
}

std::string metric_name(const config::Stage& metric) {
  if (metric.type == "top_k_accuracy")
    return fmt::format("top_{}_accuracy", metric.as<metric::TopKAccuracy>().k);
  return metric.type;
}

std::vector<std::string> monitored_values(const Experiment& experiment) {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (const char* split : {"val/", "train/"}) {
    if (split[0] == 'v' && !validates(experiment)) continue;
    names.push_back(std::string(split) + "loss");
    for (const config::Stage& metric : experiment.metrics) {
      // A confusion matrix is not a number.
      if (!metric || metric.options_type == typeid(metric::ConfusionMatrix)) continue;
      const std::string name = split + metric_name(metric);
      if (seen.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

std::string checkpoint_monitor(const Experiment& experiment) {
  if (experiment.checkpoint.monitor) return *experiment.checkpoint.monitor;
  if (const auto* patience = experiment.early_stopping.get_if<stopper::Patience>())
    return patience->monitor;
  return validates(experiment) ? "val/loss" : "train/loss";
}

Mode mode_for(const std::string& monitor) {
  constexpr std::array kErrors{"loss", "mae", "rmse", "perplexity"};
  const bool error =
      std::ranges::any_of(kErrors, [&](const char* name) { return monitor.ends_with(name); });
  return error ? Mode::min : Mode::max;
}

Mode resolve_mode(const config::Auto<Mode>& mode, const std::string& monitor) {
  return mode.value_or(mode_for(monitor));
}

}  // namespace trainctl::spec
