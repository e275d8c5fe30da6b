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

/// Epoch and step, both counted from 0. Files and messages count from 1.
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

/// The digest of all training batches of a run, computed from the digests of its epochs. The
/// digests are stored one by one because a hash state cannot be saved.
class RunDigest {
 public:
  /// Adds the digest of a finished epoch.
  void add(std::uint64_t of_epoch) { of_epochs_.push_back(of_epoch); }
  /// Records that the pixels of an epoch were not hashed, so that the run has no digest.
  void miss() { is_whole_ = false; }
  /// Returns an XXH3 hash as 16 hex digits; empty if miss() was called.
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

/// The reason to end training before its last epoch.
enum class Stop { none, signal, time };

/// The reason why the run must fail as diverged.
struct DivergenceCause {
  std::string what;            // "the training loss is nan"
  std::int64_t steps_ago = 0;  // the bad step is this many before this one: a GPU reports late
  bool from_stopper = false;   // the loss is finite but increased, so there is no step to dump
};

/// The progress of a run and the values that its observers share.
struct LoopState {
  // Saved in checkpoints.
  Position position;
  bool epoch_done = false;       // whether the epoch of `position` and its validation are finished
  std::int64_t epochs_done = 0;  // includes epochs of earlier processes
  std::int64_t samples = 0;      // over all ranks, in this epoch
  std::optional<double> monitored;  // the value of checkpoint.monitor in the last validation
  std::int64_t validated_step = 0;  // global step of the last validation within an epoch
  std::string early_reason;         // why early stopping ended the run
  double begun = 0;  // start on the session's clock, minus the run time of earlier processes
  double lr = 0;     // of the last step
  std::uint64_t digest = 0;  // of this rank's batches in this epoch
  RunDigest run_digest;
  events::Timing earlier;  // the time that earlier processes spent on this epoch

  // Of this process only.
  bool resumed = false;
  bool resumed_in_epoch = false;       // an earlier process started the next epoch
  bool other_world = false;            // the checkpoint was saved with another world size
  std::filesystem::path resumed_from;  // empty: a new run
  std::int64_t samples_before = 0;     // part of `samples` that earlier processes read
  Stop stop = Stop::none;
  std::string stop_reason;                  // set if the run ends before its last epoch
  std::optional<DivergenceCause> diverged;  // the loop throws it after the hook that set it
  std::int64_t batches = 0;                 // number of batches that this process trained on
  const device::DeviceBatch* last_batch = nullptr;  // null: no batch yet
  bool ranks_alike = true;   // whether the ranks have equal weights after the last step
  bool save_agreed = false;  // all ranks save after this step, because the save interval has passed
  double saved_at = 0;       // on the session's clock
  std::int32_t ended_saves = 0;          // CheckpointSaver::ended() of this rank
  std::int32_t agreed_saves = 0;         // that of rank 0 some steps ago, the same on all ranks
  Position validation;                   // of the running validation
  events::Metrics validated;             // results of the last validation within an epoch
  std::vector<events::TableRow> tables;  // of the epoch, such as confusion matrices
  std::optional<double> logged_loss;     // mean loss between two log points; a GPU reads it late
  std::int64_t logged_step = 0;          // the second of these log points
  bool line_is_open = false;             // the line of the last log point is not emitted yet
  stage::StopDecision decision;          // of early stopping, for the last epoch
  events::EpochEnded report;             // its timing covers this process only
  dist::SyncStats exchanged;             // by this rank in this epoch
  events::Finished finished;
  bool end_is_saved = false;  // the last state is saved, so a run can resume without losing a step

  /// Returns the epoch and step that come next.
  [[nodiscard]] Position next() const {
    Position next = position;
    if (epoch_done) {
      ++next.epoch;
      next.step_in_epoch = 0;
    }
    return next;
  }
  /// Returns the moment that identifies a checkpoint of this state.
  [[nodiscard]] checkpoint::Moment moment() const {
    const Position at = next();
    return {at.global_step, at.epoch, at.step_in_epoch > 0};
  }
  /// Serializes everything in a checkpoint except `begun` and `earlier`, which depend on the time
  /// of the save.
  void serialize(StateArchive& archive) {
    archive.group("position", [&] { position.serialize(archive); });
    archive.value("epoch_done", &epoch_done);
    archive.value("epochs_done", &epochs_done);
    archive.value("rows_in_epoch", &samples);
    archive.value("epoch_value", &monitored);
    if (archive.has("validated_step")) archive.value("validated_step", &validated_step);
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

/// Returns whether early stopping has ended the training.
inline bool ends_early(const LoopState& state) {
  return state.decision.stop || !state.early_reason.empty();
}

/// Returns whether checkpoint.every_n_steps requests a checkpoint after this step.
inline bool saves_after_step(const Options& options, const LoopState& state) {
  const auto every = options.saving ? options.saving->every_n_steps : std::nullopt;
  return every && state.position.global_step % *every == 0;
}

/// Returns whether the values of a validation within the epoch belong to this step.
inline bool is_validated(const LoopState& state) {
  return state.validated_step == state.position.global_step && !state.epoch_done;
}

inline bool logs_step(const Options& options, const LoopState& state) {
  return state.position.global_step % options.log_every == 0;
}

}  // namespace trainctl::train
