#pragma once

#include "base/hash.hpp"
#include "base/state_archive.hpp"
#include "checkpoint/folder.hpp"
#include "dist/grad_sync.hpp"
#include "events/records.hpp"
#include "train/loop/options.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::train {

/// Epoch and step, both counted from 0; files and messages count from 1.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
  std::int64_t steps_in_epoch = 0;
  std::int64_t global_step = 0;

  void serialize(StateArchive& archive) {
    std::int64_t number = epoch + 1;  // files count from 1
    archive.value("epoch", &number);
    epoch = number - 1;
    archive.value("step_in_epoch", &step_in_epoch);
    archive.value("steps_in_epoch", &steps_in_epoch);
    archive.value("global_step", &global_step);
  }
};

/// The digest of all training batches of a run, from the digests of its epochs. The epochs are kept
/// one by one, because the state of a hash cannot be saved.
class RunDigest {
 public:
  void add(std::uint64_t of_epoch) { of_epochs_.push_back(of_epoch); }
  /// The pixels of an epoch were never seen: the run has no digest.
  void miss() { is_whole_ = false; }
  /// XXH3, 16 hex digits; empty if an epoch was missed.
  [[nodiscard]] std::string hex() const {
    if (!is_whole_) return "";
    Hasher hasher;
    for (const std::uint64_t digest : of_epochs_) hasher.add(digest);
    return hasher.hex();
  }
  void serialize(StateArchive& archive) {
    archive.value("epochs", &of_epochs_);
    archive.value("is_whole", &is_whole_);
  }

 private:
  std::vector<std::uint64_t> of_epochs_;
  bool is_whole_ = true;
};

/// Why training should end before its last epoch.
enum class Stop { none, signal, time };

/// Why the run has to end as diverged.
struct DivergenceCause {
  std::string what;            // "the training loss is nan"
  std::int64_t steps_ago = 0;  // a GPU reports late: so many steps before the current one
  bool from_stopper = false;   // the loss is finite but rose: there is nothing to dump
};

/// The progress of a run, and the values that its observers share.
struct LoopState {
  // Saved in checkpoints.
  Position position;
  bool epoch_done = false;          // the epoch of `position`, with its validation
  std::int64_t epochs_done = 0;     // of this process and of those before it
  std::int64_t samples = 0;         // of all ranks, in the epoch
  std::optional<double> monitored;  // the value of checkpoint.monitor in the epoch that is done
  std::string early_reason;         // of early stopping
  double begun = 0;          // on the session's clock, as if the run had never been interrupted
  double lr = 0;             // of the last step
  std::uint64_t digest = 0;  // of the epoch, this rank's part
  RunDigest run_digest;
  events::Timing earlier;  // of the epoch: the time that earlier processes spent on it

  // Of this process alone.
  bool resumed = false;
  bool resumed_in_epoch = false;       // the next epoch was begun by another process
  bool other_world = false;            // the checkpoint is of another number of ranks
  std::filesystem::path resumed_from;  // empty: a new run
  std::int64_t samples_before = 0;     // of `samples`: before this process
  Stop stop = Stop::none;
  std::string stop_reason;                          // set if the run ends before its last epoch
  std::optional<DivergenceCause> diverged;          // the loop throws it after the hook that set it
  std::int64_t batches = 0;                         // that this process trained on
  const device::DeviceBatch* last_batch = nullptr;  // null: none yet
  bool ranks_alike = true;               // after the last step: the ranks have the same weights
  bool save_agreed = false;              // all ranks save after this step, because time has passed
  double saved_at = 0;                   // on the session's clock
  Position validation;                   // of the validation that runs
  std::vector<events::TableRow> tables;  // of the epoch, such as confusion matrices
  std::optional<double> logged_loss;     // of the last log point: the mean since the one before
  stage::StopDecision decision;          // of early stopping, on the last epoch
  events::EpochEnded report;             // of the epoch; its timing is of this process alone
  dist::SyncStats exchanged;             // by this rank, in the epoch
  events::Finished finished;
  bool end_is_saved = false;  // a run can resume from exactly where this one ended

  /// The epoch and step that come next.
  [[nodiscard]] Position next() const {
    Position next = position;
    if (epoch_done) {
      ++next.epoch;
      next.step_in_epoch = 0;
    }
    return next;
  }
  /// That of a checkpoint of this state.
  [[nodiscard]] checkpoint::Moment moment() const {
    const Position at = next();
    return {at.global_step, at.epoch, at.step_in_epoch > 0};
  }
  /// All that checkpoints hold but `begun` and `earlier`, which depend on the time of the save.
  void serialize(StateArchive& archive) {
    archive.group("position", [&] { position.serialize(archive); });
    archive.value("epoch_done", &epoch_done);
    archive.value("epochs_done", &epochs_done);
    archive.value("rows_in_epoch", &samples);
    archive.value("epoch_value", &monitored);
    archive.value("early_reason", &early_reason);
    archive.value("lr", &lr);
    archive.value("digest", &digest);
    archive.group("run_digest", [&] { run_digest.serialize(archive); });
  }
};

inline bool at_step_limit(const Options& options, const LoopState& state) {
  return options.max_steps && state.position.global_step >= *options.max_steps;
}

inline bool has_next_epoch(const Options& options, const LoopState& state) {
  const auto lies_before = [&](const std::optional<std::int64_t>& end) {
    return !end || state.position.epoch + 1 < *end;
  };
  return state.stop_reason.empty() && lies_before(options.max_epochs) &&
         lies_before(options.until_epoch);
}

/// checkpoint.every_n_steps asks for a checkpoint after this step.
inline bool saves_after_step(const Options& options, const LoopState& state) {
  const auto every = options.saving ? options.saving->every_n_steps : std::nullopt;
  return every && state.position.global_step % *every == 0;
}

inline bool logs_step(const Options& options, const LoopState& state) {
  return state.position.global_step % options.log_every == 0;
}

}  // namespace trainctl::train
