#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/state/weights.hpp"

#include <future>
#include <optional>
#include <string_view>
#include <vector>

namespace trainctl::train {

/// Keeps the best weights in memory, by checkpoint.monitor and by the stopper's monitor, and writes
/// checkpoints/best.safetensors (while training continues) and last.safetensors. All ranks keep the
/// weights; rank 0 writes.
class BestWeights final : public Observer {
 public:
  BestWeights(const Session& session, const Options& options, Phases& phases);

  void on_interval_validation_end(LoopState& state) override;
  void on_validation_end(LoopState& state) override;
  void on_epoch_end(LoopState& state) override;
  void on_run_end(LoopState& state) override;
  void on_failure(LoopState& state, ErrorKind cause) noexcept override;
  [[nodiscard]] std::string_view state_key() const override { return "keeper"; }
  [[nodiscard]] std::vector<StateTensor> tensors() const override;
  [[nodiscard]] std::uint64_t expected_bytes() const override;

  /// Copies the weights if `monitored` is the best value so far, or if the stopper's value
  /// improved. Returns whether `monitored` is the best; nullopt means that the epoch has no such
  /// value.
  bool observe(const Position& position, std::optional<double> monitored,
               const stage::StopDecision& decision);
  /// What to do if a file cannot be written (Error(resource)): warn and keep it unsaved until the
  /// next save, or fail the run.
  enum class OnFailure { warn, end };
  /// Called at the end of an epoch. Starts writing the best weights if they are new and
  /// checkpoint.every_n_epochs is due. The next settle() reports failures; synchronous saves report
  /// them at once.
  void save_due(std::int64_t epoch);
  /// Starts writing the best weights regardless of the interval.
  void save_soon();
  /// Waits for the pending write and reports failures. Call it before the next observe().
  void settle() { settle_best(OnFailure::warn); }
  /// Writes the best weights if they are unsaved, and waits for the write.
  void save_new_best(OnFailure on_failure);
  /// Writes the model's weights, which may be the restored ones, as the last.
  void save_last(const Position& position, OnFailure on_failure);
  /// Copies the stopper's best weights into the model; does nothing if there are none.
  void restore_best();

  /// Copies the best weights into the model. Returns their position; nullopt if there are none.
  std::optional<Position> load_best();

  /// Returns the best weights so far, which share storage: "best.fc1.weight", and
  /// "stoppers_best.fc1.weight" if the stopper's best differ. `serialize` must run first, because
  /// it creates them.
  [[nodiscard]] std::vector<stage::NamedTensor> state() const;
  void serialize(StateArchive& archive) override;

 private:
  [[nodiscard]] bool is_best(std::optional<double> monitored) const;
  void take(std::optional<Snapshot>& into) const;
  void serialize_ranking(StateArchive& archive);
  void serialize(StateArchive& archive, std::string_view key, std::optional<Snapshot>& kept) const;
  void begin_best();
  void settle_best(OnFailure on_failure);
  void warn_of_failure(const char* file, const Error& error) const;

  const Session& session_;
  const Options& options_;
  Phases& phases_;
  bool writes_;
  std::optional<Snapshot> best_;  // by checkpoint.monitor
  std::optional<double> best_value_;
  Position best_position_;
  bool unsaved_ = false;           // or not yet known to be saved
  std::future<void> writing_;      // writes best_, which must not change meanwhile
  bool write_is_pending_ = false;  // a write was pending when the checkpoint was taken
  bool restores_;
  std::optional<Snapshot> stoppers_best_;  // unset while it equals best_
  bool shares_best_ = false;
  std::optional<Position> stoppers_position_;
  std::optional<Position> restored_;
};

}  // namespace trainctl::train
