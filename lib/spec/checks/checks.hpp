#pragma once

#include "config/diagnostics.hpp"
#include "config/tree/node.hpp"
#include "spec/compatibility.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/load.hpp"
#include "spec/sample.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
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
/// Checks the schedulers of the experiment and of its optimizer's groups against the length of the
/// run.
void check_schedulers(Checker& checker, const RunLength& length);
/// Checks monitors, optimizer, loss, metrics, splits, cache, remote storage and sampler.
void check_stages(Checker& checker);
/// Checks the section `trainer`.
void check_trainer(Checker& checker);

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// The properties of a split that its headers contain.
struct SplitFacts {
  std::int64_t samples = 0;
  std::int64_t classes = 0;             // 0: its labels are not classes
  std::optional<ImageSize> image = {};  // after the transforms; nullopt: unknown
  std::optional<SampleKind> kind = {};  // nullopt: no training uses it
};

/// Runs the checks that need the data: batch size against samples, weights and top-k against
/// classes, model, loss and metrics against the kind of samples, the schedule against the length of
/// the run. Without facts, checks only the schedule, against the file alone. Problems go into
/// `diagnostics`.
void check_against_data(const Loaded& loaded, const std::optional<SplitFacts>& train,
                        config::Diagnostics& diagnostics);

/// Checks the model against the training samples (nullopt: unknown) and against the file that it is
/// loaded from. Problems go into `diagnostics`.
void check_model(const Loaded& loaded, const std::optional<ModelInput>& input,
                 config::Diagnostics& diagnostics);

/// Returns the URL of the tracking server of the logger `mlflow`: its option, or the environment's
/// MLFLOW_TRACKING_URI; empty without both.
std::string mlflow_uri(const std::optional<std::string>& tracking_uri);

/// Checks the loggers on the machine that runs them: a command that does not exist, a missing
/// folder, a logger that would write its files twice. Problems go into `diagnostics`. Not for
/// workers, which may run elsewhere.
void check_loggers(const Loaded& loaded, config::Diagnostics& diagnostics);

/// Returns the reason, as a clause, why the experiment's steps cannot be captured as CUDA graphs;
/// nullopt if they can. Resolve `activation_checkpointing: auto` before.
std::optional<std::string> capture_obstacle(const Experiment& experiment,
                                            const Placement& placement);

/// Checks an experiment before training: `cuda_graphs: true` with an obstacle on this machine is a
/// problem.
void check_capture(const Loaded& loaded, config::Diagnostics& diagnostics);

/// A stage without a deterministic backward pass on GPUs, so that `trainer.deterministic` fails
/// there.
struct NondeterministicStage {
  const char* kind;                             // "layer"
  const char* type;                             // "adaptive_avg_pool2d"
  const char* condition;                        // on its options: "`output_size` above 1"
  const char* operation;                        // libtorch's name in the error of the backward pass
  const char* hint;                             // what to write instead
  bool (*applies)(const config::Stage& stage);  // whether its options fulfill the condition
};

/// Returns every such stage; docs/explanation/determinism.md has the same table. The operations are
/// those of torch.use_deterministic_algorithms.
std::span<const NondeterministicStage> nondeterministic_stages();

/// Checks an experiment before training: `deterministic: true` with one of
/// nondeterministic_stages() is a problem on GPUs.
void check_determinism(const Loaded& loaded, const Placement& placement,
                       config::Diagnostics& diagnostics);

}  // namespace trainctl::spec
