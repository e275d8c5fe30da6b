#include "base/strings.hpp"
#include "config/wording.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/options/scheduler.hpp"
#include "spec/options/stopper.hpp"
#include "spec/plugins.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::spec {
namespace {

std::string hint_for(const Experiment& experiment, const std::string& monitor) {
  const std::vector<std::string> values = monitored_values(experiment);
  if (monitor.starts_with("val/") && !validates(experiment)) {
    const char* cure =
        experiment.dataset.val ? "raise 'trainer.limit_val_batches'" : "add 'dataset.val'";
    return fmt::format("{}, or monitor one of: {}", cure, config::list_some(values));
  }
  const auto longer = std::ranges::find_if(
      values, [&](const std::string& value) { return value.starts_with(monitor); });
  const auto found = longer != values.end() ? std::optional(*longer) : nearest(monitor, values);
  if (found) return fmt::format("did you mean '{}'? (all: {})", *found, config::list_some(values));
  return fmt::format("available: {}; add others with 'metrics: [...]'", config::list_some(values));
}

// Returns whether `monitor` may mean a metric whose entry could not be read: an existing metric, or
// a listed name.
bool may_be_listed(const Checker& checker, const std::string& monitor) {
  const std::string name = monitor.substr(monitor.find('/') + 1);
  const bool of_a_split = monitor.starts_with("train/") || monitor.starts_with("val/");
  if (!of_a_split || (monitor.starts_with("val/") && !validates(checker.experiment())))
    return false;
  const bool is_top_k = name.starts_with("top_") && name.ends_with("_accuracy");
  if (is_top_k || vocabulary_in_use().find("metric", name) != nullptr) return true;
  const config::Node* listed = checker.find("metrics");
  return listed == nullptr || listed->type != config::Node::Type::list ||
         std::ranges::any_of(listed->items, [&](const config::Node& item) {
           const config::Node* type = item.find("type");
           return (type == nullptr ? item : *type).text == name;
         });
}

void check_monitor(Checker& checker, const std::string& stage, const std::string& monitor,
                   const config::Auto<Mode>& mode) {
  const std::string path = stage + ".monitor";
  const Experiment& experiment = checker.experiment();
  const bool knows_splits = experiment.dataset.train.dataset || experiment.dataset.val;
  if (!checker.is_valid(path) || !knows_splits) return;
  const std::vector<std::string> values = monitored_values(experiment);
  if (std::ranges::find(values, monitor) == values.end()) {
    if (!checker.is_valid("metrics") && may_be_listed(checker, monitor)) return;
    const bool unvalidated = monitor.starts_with("val/") && !validates(experiment);
    checker.error(path,
                  fmt::format("'{}' is '{}', but {}", path, monitor,
                              unvalidated ? "this run has no validation"
                                          : "this run computes no value with this name"),
                  hint_for(experiment, monitor));
    return;
  }
  const Mode fitting = mode_for(monitor);
  if (mode.is_auto() || *mode.value == fitting || !checker.is_valid(stage + ".mode")) return;
  if (checker.find(stage + ".mode") == nullptr) {  // the stage has no mode option
    checker.error(
        path, fmt::format("'{}' must name a loss, got '{}', where higher is better", path, monitor),
        "monitor a loss, such as train/loss");
    return;
  }
  checker.error(
      stage + ".mode",
      fmt::format("mode '{}' contradicts '{}', where {} is better", enum_name(*mode.value), monitor,
                  fitting == Mode::min ? "lower" : "higher"),
      fmt::format("write {}, or remove the mode", enum_name(fitting)));
}

}  // namespace

void check_monitors(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (const auto* patience = experiment.early_stopping.get_if<stopper::Patience>())
    check_monitor(checker, "early_stopping", patience->monitor, patience->mode);
  if (const auto* divergence = experiment.early_stopping.get_if<stopper::Divergence>())
    check_monitor(checker, "early_stopping", divergence->monitor, {Mode::min});
  if (const auto* plateau = experiment.scheduler.get_if<scheduler::ReduceLrOnPlateau>())
    check_monitor(checker, "scheduler", plateau->monitor, plateau->mode);
  const Checkpoint& checkpoint = experiment.checkpoint;
  if (checkpoint.monitor || checker.is_valid("early_stopping")) {
    check_monitor(checker, "checkpoint", checkpoint_monitor(experiment), checkpoint.mode);
  }
}

}  // namespace trainctl::spec
