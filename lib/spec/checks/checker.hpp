#pragma once

#include "config/diagnostics.hpp"
#include "config/tree/node.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment/run_size.hpp"

#include <initializer_list>
#include <string>
#include <string_view>

namespace trainctl::spec {

/// The input of the cross-field checks: the typed experiment, the tree with the position of each
/// value, and the list of problems. Keys are named by path: "trainer.devices",
/// "dataset.train.transforms.0.mean".
class Checker {
 public:
  Checker(const Experiment& experiment, const config::Node& tree, config::Diagnostics& diagnostics)
      : experiment_(experiment), tree_(tree), diagnostics_(diagnostics) {}

  [[nodiscard]] const Experiment& experiment() const { return experiment_; }

  /// Returns false if something at or below `path` could not be read, so that checks which depend
  /// on it would raise false alarms.
  [[nodiscard]] bool is_valid(const std::string& path) const;
  [[nodiscard]] bool is_valid(std::initializer_list<const char*> paths) const;
  /// Returns whether everything but the entry `key` of the map at `path` could be read.
  [[nodiscard]] bool is_valid_except(const std::string& path, std::string_view key) const;

  /// Returns the value at `path` as written in the file; null if it was not written.
  [[nodiscard]] const config::Node* find(const std::string& path) const {
    return config::find_path(tree_, path);
  }

  /// Reports an error at the value of `path`, or at the nearest written value above it.
  void error(const std::string& path, std::string message, std::string hint = {});
  void warning(const std::string& path, std::string message, std::string hint = {});

 private:
  [[nodiscard]] config::Position at(const std::string& path) const;

  const Experiment& experiment_;
  const config::Node& tree_;
  config::Diagnostics& diagnostics_;
};

/// Warns about weight averages for which the run is too short.
void check_averages(Checker& checker, const RunLength& length);
/// Checks the section `distributed`.
void check_distributed(Checker& checker);
/// Checks that monitors name values that the run computes, and that their modes fit.
void check_monitors(Checker& checker);
/// Checks the schedule against the length of the run.
void check_scheduler(Checker& checker, const RunLength& length);
/// Checks optimizer, loss, metrics, splits, cache, remote storage and sampler.
void check_stages(Checker& checker);
/// Checks the section `trainer`.
void check_trainer(Checker& checker);

}  // namespace trainctl::spec
