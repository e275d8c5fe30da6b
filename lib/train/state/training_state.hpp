#pragma once

#include "train/loop/evaluator.hpp"
#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace trainctl::train {

/// How to continue from a checkpoint in the middle of an epoch: train the rest of the epoch, or
/// repeat the whole epoch because the data changed. Weights, optimizer and step counts are those of
/// the checkpoint either way.
enum class PartialEpoch { resume, restart };

/// Everything that a run needs to resume bit for bit: weights, optimizer, scheduler, generators,
/// loaders, partial metrics, and the observers' state.
class TrainingState {
 public:
  /// All members outlive the TrainingState.
  struct Parts {
    const Session& session;
    const Options& options;
    LoopState& state;
    const Phases& phases;
    StepRunner& step;
    dist::GradSync& sync;
    Evaluator* evaluator;  // null: no validation
    const Observers& observers;
  };
  explicit TrainingState(const Parts& parts) : parts_(parts) {}

  /// Returns the tensors of this rank's part of a checkpoint, which share storage, and copies of
  /// the generators' states.
  [[nodiscard]] std::vector<stage::NamedTensor> tensors() const;
  /// Returns the plain values of the part, including the position.
  [[nodiscard]] Json values() const;
  /// Returns the bytes of a checkpoint over all ranks, including state that is allocated later.
  [[nodiscard]] std::uint64_t expected_bytes() const;

  /// Loads a checkpoint and sets the position to the next batch. With the same world size all
  /// results are as if the run had never stopped. Throws Error(checkpoint) naming what does not
  /// fit, or Error(config) if another world size cannot continue at that batch.
  void restore(const std::filesystem::path& checkpoint, PartialEpoch epoch);

 private:
  [[nodiscard]] std::vector<StateTensor> all_tensors() const;
  [[nodiscard]] std::vector<StateTensor> saved_tensors() const;
  void serialize(StateArchive& archive) const;
  void restore_values(const SavedState& saved, PartialEpoch epoch) const;
  void restore_tensors(const SavedState& saved) const;
  void merge_other_ranks(const SavedState& saved) const;
  void average_sync_state(const SavedState& saved) const;
  void fit_position(const checkpoint::Manifest& manifest) const;
  [[nodiscard]] bool is_weights_only() const {
    return parts_.options.saving && parts_.options.saving->weights_only;
  }

  Parts parts_;
};

}  // namespace trainctl::train
