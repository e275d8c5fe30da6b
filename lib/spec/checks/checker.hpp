#pragma once

#include "config/diagnostics.hpp"
#include "config/tree/node.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment/run_size.hpp"

#include <initializer_list>
#include <string>
#include <string_view>

namespace trainctl::spec {

/// What the cross-field checks share: the typed experiment, the tree that says where each value
/// stands, and the list of problems. Keys are named by path: "trainer.devices",
/// "dataset.train.transforms.0.mean".
class Checker {
 public:
  Checker(const Experiment& experiment, const config::Node& tree, config::Diagnostics& diagnostics)
      : experiment_(experiment), tree_(tree), diagnostics_(diagnostics) {}

  [[nodiscard]] const Experiment& experiment() const { return experiment_; }

  /// False where something at or below `path` could not be read: what builds on it would be a false
  /// alarm.
  [[nodiscard]] bool sound(const std::string& path) const;
  [[nodiscard]] bool sound(std::initializer_list<const char*> paths) const;
  /// The same of what is beside the entry `key` of the map at `path`.
  [[nodiscard]] bool sound_beside(const std::string& path, std::string_view key) const;

  /// The value at `path` as it was written; null where it was not.
  [[nodiscard]] const config::Node* find(const std::string& path) const {
    return config::find_path(tree_, path);
  }

  /// At the value of `path`, or at the nearest value above it that was written.
  void error(const std::string& path, std::string message, std::string hint = {});
  void warning(const std::string& path, std::string message, std::string hint = {});

 private:
  [[nodiscard]] config::Position at(const std::string& path) const;

  const Experiment& experiment_;
  const config::Node& tree_;
  config::Diagnostics& diagnostics_;
};

/// Warns of averages that the run is too short for.
void check_averages(Checker& checker, const RunLength& length);
void check_distributed(Checker& checker);
void check_monitors(Checker& checker);
void check_scheduler(Checker& checker, const RunLength& length);
void check_stages(Checker& checker);
void check_trainer(Checker& checker);

}  // namespace trainctl::spec
