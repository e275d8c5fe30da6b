#pragma once

#include "checkpoint/store.hpp"
#include "train/state/training_state.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::train {

/// How checkpoints are ranked. Checkpoints with another monitor or without a value are not ranked.
struct Ranking {
  std::string monitor;
  spec::Mode mode = spec::Mode::min;
};

/// Returns the names of the best `most` checkpoints (-1: all that have a value), best first. Of
/// equal values the older one comes first.
std::vector<std::string> best_names(const std::vector<checkpoint::StoredCheckpoint>& found,
                                    const Ranking& ranking, std::int64_t most);

// The thread that writes a checkpoint uses no tensors, no collectives and no events.

/// The part of one checkpoint that a rank writes.
struct WriteJob {
  std::vector<container::Entry> entries;  // their bytes must not change until the job is done
  Json meta;
  checkpoint::Manifest manifest;  // rank 0 publishes it with the parts
  std::function<bool()> history_is_stored =
      {};  // whether the supervisor has stored the history up to here; empty: it is not checked
  std::function<bool()> is_copied = {};  // whether the bytes are complete; empty: they are
  /// Returns why the complete bytes must not be saved, or an empty text; empty: they may be saved.
  std::function<std::string()> obstacle = {};
};

struct WriteOutcome {
  bool committed = false;  // on rank 0; on other ranks: the part is written
  bool refused = false;    // there was an obstacle, which `failure` names
  std::string failure;     // any error, also one after the commit; empty: none
  std::string name;        // of the folder
};

/// Writes the part of this rank. Rank 0 creates the folder first, commits it when all parts are
/// there, then updates the links and removes old checkpoints. The ranks synchronize through files.
class CheckpointWriter {
 public:
  struct Options {
    std::filesystem::path folder;  // checkpoints/
    dist::RankInfo place;
    Ranking ranking;
    std::int64_t top_k = 1;         // -1: all checkpoints are kept
    double part_deadline_s = 120;   // seconds to wait for the parts of other ranks
    double history_deadline_s = 5;  // seconds to wait for WriteJob::history_is_stored
  };
  /// Stops waiting once `canceled` is set.
  CheckpointWriter(Options options, const std::atomic<bool>& canceled);

  [[nodiscard]] const std::string& monitor() const { return options_.ranking.monitor; }
  /// Writes the checkpoint. Never throws.
  WriteOutcome run(const WriteJob& job);

 private:
  void lead(const WriteJob& job, WriteOutcome& outcome);
  void publish(const WriteJob& job, const std::filesystem::path& checkpoint);
  void follow(const WriteJob& job, WriteOutcome& outcome);
  void await_state(const WriteJob& job) const;
  void await_history(const WriteJob& job) const;
  void tidy(const std::filesystem::path& checkpoint);
  /// `rank` is the one that writes the part; nullopt: rank 0 creates the folder.
  void await(const std::filesystem::path& path, std::optional<int> rank) const;

  Options options_;
  const std::atomic<bool>& cancelled_;
  checkpoint::Store store_;
};

/// Writes checkpoints of the whole state while training continues: the step only copies the state,
/// and a thread writes it. A save waits for the previous one. Rank 0 emits the result as an event
/// at a later step. All ranks make the same calls at the same steps, except poll().
class CheckpointSaver {
 public:
  /// Removes what earlier saves left incomplete, so construct it before the first collective. On a
  /// GPU, the thread that writes a checkpoint also checks the state, and refuses one that diverged.
  /// Throws Error(resource).
  CheckpointSaver(const Session& session, const Options& options);
  /// Stops waiting for the other ranks.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Sets the checkpoint that the run resumes from; empty for a new run. Call it before the first
  /// save. Newer checkpoints in the folder belong to a superseded history and must have been moved
  /// away: if one is left, rank 0 throws Error(checkpoint) naming it.
  void begin(const std::filesystem::path& resumed_from);
  /// Compares the free disk space with a checkpoint of this many bytes. Warns if three do not fit,
  /// because the disk holds up to three during a save. Throws Error(resource) if not even one fits.
  void check_space(std::uint64_t bytes) const;

  /// What the manifest says about one checkpoint; the rest comes from the session.
  struct About {
    checkpoint::Moment moment;
    std::int64_t step_in_epoch = 0;
    std::int64_t samples_in_epoch = 0;  // over all ranks
    std::string reason;
    std::optional<double> value;   // of the monitor
    std::int64_t event_epoch = 0;  // epoch of the event
    std::string buckets;           // GradSync::layout()
  };
  /// Waits for the previous save, then starts to copy the tensors. Throws Error(resource) like
  /// poll().
  void take(const std::vector<stage::NamedTensor>& tensors, Json meta);
  /// Writes the copy. Returns at once, or after the commit if `async: false` is set.
  void write(const About& about);
  /// Waits until the last save is committed or has failed. Afterward all ranks know the result, for
  /// which they exchange it, unless agree() has done so.
  void settle();
  /// Returns a number for the saves that have ended on this rank: twice their count, plus 1 if the
  /// last one was committed.
  [[nodiscard]] std::int32_t ended() const { return ended_; }
  /// Takes the ended() of rank 0 that all ranks have got, so that a save need not wait for it.
  void agree(std::int32_t ended) { agreed_ = std::max(agreed_, ended); }
  /// Reports failures from now on instead of throwing them, because the run ends.
  void tolerate_failures() { tolerates_ = true; }
  /// Whether take() returns before the state is copied, so that nothing can check it before.
  [[nodiscard]] bool copies_late() const { return copies_.is_late(); }
  /// Returns whether a checkpoint of this moment was committed, as of the last settle().
  [[nodiscard]] bool has(const checkpoint::Moment& moment) const {
    return last_ == moment && committed_ == last_;
  }

  /// Reports the result of the pending save if it has ended. Throws Error(resource) after three or
  /// more consecutive failures over at least five minutes, or if there is no older checkpoint to
  /// resume from.
  void poll();

 private:
  [[nodiscard]] bool leads() const { return place_.rank == 0; }
  void finish();
  void report(const WriteOutcome& outcome);
  void count_failure(const std::string& failure);
  [[nodiscard]] std::string older_one() const;

  const Session& session_;
  Saving saving_;
  std::int64_t may_skip_;
  dist::RankInfo place_;
  std::filesystem::path folder_;
  std::atomic<bool> cancelled_ = false;
  CheckpointWriter writer_;
  HostCopies copies_;
  Json meta_;
  WriteJob job_;
  About about_;
  std::future<WriteOutcome> pending_write_;
  std::int32_t started_ = 0;  // number of saves
  std::int32_t ended_ = 0;
  std::int32_t agreed_ = 0;
  std::optional<checkpoint::Moment> last_;  // started last, or resumed from
  std::optional<checkpoint::Moment> committed_;
  double exposed_s_ = 0;  // of the pending save
  int failures_ = 0;      // consecutive
  double failing_since_ = 0;
  bool tolerates_ = false;
};

/// Saves the state of a run according to `checkpoint` in the configuration: after epochs and steps,
/// by time, and at the end of the run.
class Checkpointer final : public Observer {
 public:
  /// `check` throws if the weights must not be saved. `emit_line` emits the line of the last log
  /// point. All members outlive the Checkpointer.
  using Call = std::function<void(LoopState&)>;
  struct Parts {
    const Session& session;
    const Options& options;
    Phases& phases;
    const TrainingState& training;
    const dist::GradSync& sync;
    CheckpointSaver& saver;
    Call check;
    Call emit_line;
  };
  explicit Checkpointer(Parts parts) : parts_(std::move(parts)) {}

  void on_run_begin(LoopState& state) override;
  void on_step_save(LoopState& state) override;
  void on_train_epoch_end(LoopState& state) override;
  void on_epoch_end(LoopState& state) override;
  void on_epoch_report(LoopState& state) override;
  void on_train_end(LoopState& state) override;

 private:
  void copy(LoopState& state);
  void check_and_copy(LoopState& state);
  void write_copy(LoopState& state);
  [[nodiscard]] CheckpointSaver::About about(const LoopState& state, const char* reason) const;

  Parts parts_;
  /// Why on_epoch_report() writes the copy of the epoch; null: it writes none. The same on all
  /// ranks.
  const char* reason_ = nullptr;
  /// The copy of a step that is not being written yet.
  std::optional<CheckpointSaver::About> unwritten_;
  /// The checkpoint of an epoch that a limit has cut short.
  std::optional<CheckpointSaver::About> truncated_epoch_;
};

}  // namespace trainctl::train
