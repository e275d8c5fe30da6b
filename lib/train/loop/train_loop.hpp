#pragma once

#include "train/debug/numerics_guard.hpp"
#include "train/state/best_weights.hpp"
#include "train/state/checkpointer.hpp"
#include "train/state/weight_averaging.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace trainctl::train {

/// Runs epochs, steps, validation and the end of a run. It uses the interfaces of the stages, never
/// a concrete stage; everything other than training itself is done by observers.
class TrainLoop {
 public:
  /// Broadcasts the weights of rank 0 to all ranks. `session` must outlive the loop.
  TrainLoop(const Session& session, Options options);

  /// Resumes from a checkpoint, see TrainingState::restore(). Call it before run().
  void resume(const std::filesystem::path& checkpoint, PartialEpoch epoch = PartialEpoch::resume) {
    training_.restore(checkpoint, epoch);
  }
  /// Trains to the end and returns the last event. Throws Error(diverged) if a loss, a gradient or
  /// weights are not finite, Error(data) from the loader, Error(rank_failed) or Error(hang) if
  /// another rank fails.
  events::Finished run();
  /// Writes what is worth keeping after run() has thrown, frees the memory of CUDA graphs, and
  /// aborts the communicator. Never throws, so that the original error is reported.
  void rescue(ErrorKind cause) noexcept;
  /// Loads the best weights of a finished run into the model. Returns their position; nullopt and
  /// no change if the run keeps none.
  std::optional<Position> load_best() { return best_weights_->load_best(); }
  /// Destroys the CUDA graph of a step, which may contain collectives. Call it before
  /// Communicator::shutdown().
  void drop_graph() noexcept;

  [[nodiscard]] const LoopState& state() const { return state_; }
  [[nodiscard]] events::Phase phase() const { return phases_.current(); }
  /// Describes the gradient buckets, see GradSync::layout().
  [[nodiscard]] std::string buckets() const { return sync_->layout(); }

 private:
  using Hook = void (Observer::*)(LoopState&);
  void make_observers();
  template <class Kind, class... Arguments>
  Kind& add_observer(Arguments&&... arguments);
  void notify(Hook hook);

  bool next_epoch();
  bool train_epoch();
  void begin_epoch();
  void train_batch(std::int64_t index);
  void begin_step(std::int64_t first_batch);
  bool finish_epoch();
  bool evaluate_epoch();
  [[nodiscard]] bool validates_epoch() const;
  [[nodiscard]] bool validation_is_due() const;
  void validate_within_epoch();
  std::optional<events::Metrics> validate(std::optional<std::int64_t> limit);
  void report_epoch();
  void settle_stop_reason();
  events::Finished finish();

  const Session& session_;
  Options options_;
  LoopState state_;
  Phases phases_;
  std::unique_ptr<CheckpointSaver>
      saver_;  // null: no checkpoints. Constructed before the first collective
  std::unique_ptr<dist::GradSync> sync_;
  std::unique_ptr<device::Feed> feed_;
  StepRunner step_;
  std::optional<Evaluator> evaluator_;
  Observers observers_;
  TrainingState training_;
  NumericsGuard* guard_ = nullptr;        // one of the observers
  BestWeights* best_weights_ = nullptr;   // one of the observers
  WeightAveraging* averaging_ = nullptr;  // one of the observers; null: no averaging
  std::int64_t step_rows_ = 0;            // of the optimizer step, over all ranks
};

}  // namespace trainctl::train
