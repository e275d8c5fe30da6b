#pragma once

#include "train/loop/evaluator.hpp"
#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace trainctl::train {

/// What a checkpoint in the middle of an epoch means for the rest of that epoch: it is trained, or
/// the whole epoch is, because the data changed. Weights, optimizer and steps are those of the
/// checkpoint either way.
enum class PartialEpoch { resume, restart };

/// Everything from which a run resumes bit for bit: weights, optimizer, scheduler, generators,
/// loaders, metrics under way, and the observers' parts.
class TrainingState {
 public:
  /// All of it outlives the TrainingState.
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

  /// The tensors of this rank's part of a checkpoint, live; copies of the generators' states.
  [[nodiscard]] std::vector<stage::NamedTensor> tensors() const;
  /// The plain values of that part, with its position.
  [[nodiscard]] Json values() const;
  /// Bytes of a checkpoint, of all ranks, when everything that the run keeps has been made.
  [[nodiscard]] std::uint64_t expected_bytes() const;

  /// Takes over a checkpoint, and the next batch is the one after it. On as many ranks as wrote it
  /// all numbers are as if the run had never stopped. Throws Error(checkpoint) naming what does not
  /// fit, Error(config) if another number of ranks cannot continue at that batch.
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
