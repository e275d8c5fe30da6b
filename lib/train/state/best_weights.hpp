#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/state/weights.hpp"

#include <future>
#include <optional>
#include <string_view>
#include <vector>

namespace trainctl::train {

/// Keeps the best weights in memory, by the checkpoint's monitor and by the stopper's, and writes
/// checkpoints/best.safetensors (while training goes on) and last.safetensors. All ranks keep them,
/// rank 0 writes.
class BestWeights final : public Observer {
 public:
  BestWeights(const Session& session, const Options& options, Phases& phases);

  void on_validation_end(LoopState& state) override;
  void on_epoch_end(LoopState& state) override;
  void on_run_end(LoopState& state) override;
  void on_failure(LoopState& state, ErrorKind cause) noexcept override;
  [[nodiscard]] std::string_view state_key() const override { return "keeper"; }
  [[nodiscard]] std::vector<StateTensor> tensors() const override;
  [[nodiscard]] std::uint64_t expected_bytes() const override;

  /// Takes the weights where `monitored` is the best so far, or the stopper holds them for the
  /// best. Returns whether `monitored` is, which is absent in an epoch that has no such value.
  bool observe(const Position& position, std::optional<double> monitored,
               const stage::StopDecision& decision);
  /// A file that cannot be written (Error(resource)): a warning, and what is new stays so until
  /// the next save; or the end of the run.
  enum class OnFailure { warn, end };
  /// At the end of an epoch: begins to write the best if it is new and its turn has come. What has
  /// become of it is told by the next settle(), or at once where saves are waited for.
  void save_due(std::int64_t epoch);
  /// The same, whatever its turn.
  void save_soon();
  /// Waits for the best to be written and tells how that went; before the next observe().
  void settle() { settle_best(OnFailure::warn); }
  /// Writes the best weights if they are not yet, and waits for it.
  void save_new_best(OnFailure on_failure);
  /// Writes the model's weights, or the restored ones, as the last.
  void save_last(const Position& position, OnFailure on_failure);
  /// The stopper's best weights become the model's; nothing where there are none.
  void restore_best();

  /// The best weights so far, live: "best.fc1.weight", and "stoppers_best.fc1.weight" where the
  /// stopper holds others for the best. Which there are, `serialize` says: it comes first.
  [[nodiscard]] std::vector<stage::NamedTensor> state() const;
  void serialize(StateArchive& archive) override;

 private:
  [[nodiscard]] bool is_best(std::optional<double> monitored) const;
  void take(std::optional<Snapshot>& into) const;
  void serialize_ranking(StateArchive& archive);
  void serialize(StateArchive& archive, std::string_view key, std::optional<Snapshot>& kept) const;
  void begin_best();
  void settle_best(OnFailure on_failure);
  void tell_failure(const char* file, const Error& error) const;

  const Session& session_;
  const Options& options_;
  Phases& phases_;
  bool writes_;
  std::optional<Snapshot> best_;  // by the checkpoint's monitor
  std::optional<double> best_value_;
  Position best_position_;
  bool unsaved_ = false;       // or not yet known to be saved
  std::future<void> writing_;  // best_, which stays as it is till then
  bool owes_write_ = false;    // it was under way when the state was taken
  bool restores_;
  std::optional<Snapshot> stoppers_best_;  // where it is not best_
  bool shares_best_ = false;
  std::optional<Position> stoppers_position_;
  std::optional<Position> restored_;
};

}  // namespace trainctl::train
