#pragma once

#include "checkpoint/store.hpp"
#include "train/state/training_state.hpp"

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

/// By what checkpoints are compared: those of another monitor, or without a value, are no part of
/// it.
struct Ranking {
  std::string monitor;
  spec::Mode mode = spec::Mode::min;
};

/// The names of the best `most` (-1: of all that have a value), the best first; of equal values the
/// older one counts as better.
std::vector<std::string> best_names(const std::vector<checkpoint::Found>& found,
                                    const Ranking& ranking, std::int64_t most);

// What the thread does that writes a checkpoint: no tensors, no collectives, no events.

/// One checkpoint, as one rank has it.
struct WriteJob {
  std::vector<container::Entry> entries;  // their bytes stay as they are until it is done
  Json meta;
  checkpoint::Manifest manifest;  // rank 0 publishes it, with the parts
  std::function<bool()> is_heard =
      {};  // whether the history up to here is safe; absent: nobody asks
};

struct WriteOutcome {
  bool committed = false;  // of rank 0; of another one: its part is written
  std::string failure;     // what went wrong, also behind the commit; empty: nothing
  std::string name;        // of the folder
};

/// Writes the part of this rank; rank 0 makes the folder before, and commits it when all parts are
/// there, then moves the links and removes old ones. Ranks find each other by the files.
class CheckpointWriter {
 public:
  struct Options {
    std::filesystem::path folder;  // checkpoints/
    dist::Place place;
    Ranking ranking;
    std::int64_t top_k = 1;        // -1: nothing is removed
    double part_deadline_s = 120;  // for the parts of the other ranks
    double heard_deadline_s = 5;   // for the listeners
  };
  /// Gives up what it waits for once `canceled` is set.
  CheckpointWriter(Options options, const std::atomic<bool>& canceled);

  [[nodiscard]] const std::string& monitor() const { return options_.ranking.monitor; }
  /// Never throws.
  WriteOutcome run(const WriteJob& job);

 private:
  void lead(const WriteJob& job, WriteOutcome& outcome);
  void publish(const WriteJob& job, const std::filesystem::path& checkpoint);
  void follow(const WriteJob& job, WriteOutcome& outcome);
  void await_listeners(const WriteJob& job) const;
  void tidy(const std::filesystem::path& checkpoint);
  void await(const std::filesystem::path& path, const std::filesystem::path& sign_of_failure) const;

  Options options_;
  const std::atomic<bool>& cancelled_;
  checkpoint::Store store_;
};

/// Writes checkpoints of the whole state while training continues: a copy on the step, the rest on
/// a thread. A save waits for the one before it. Rank 0 emits the outcome as an event at a later
/// step. All ranks make the same calls at the same steps, except poll().
class Saver {
 public:
  /// Removes what earlier saves left unfinished, so make it before ranks meet. Throws
  /// Error(resource).
  Saver(const Session& session, const Options& options);
  /// Gives up what the other ranks do not finish.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// The run goes on from this checkpoint, or (empty) begins. Before the first save. Newer ones in
  /// its folder are of another past, and must have been moved away: where one is left rank 0 throws
  /// Error(checkpoint) naming it.
  void begin(const std::filesystem::path& resumed_from);
  /// Compares the free space of the disk with a checkpoint of so many bytes: a warning where three
  /// do not fit, which is what the disk holds at most during a save. Throws Error(resource) where
  /// not even one does.
  void check_space(std::uint64_t bytes) const;

  /// What a manifest tells of one checkpoint; the rest is in the session.
  struct About {
    checkpoint::Moment moment;
    std::int64_t step_in_epoch = 0;
    std::int64_t samples_in_epoch = 0;  // of all ranks
    std::string reason;
    std::optional<double> value;  // of the monitor
    std::int64_t told_epoch = 0;  // of the event
    std::string buckets;          // GradSync::layout()
  };
  /// Waits for the save before, then copies. Throws Error(resource) as poll().
  void take(const std::vector<stage::NamedTensor>& tensors, Json meta);
  /// Writes what was taken. Returns at once, or with `async: false` once it is committed.
  void write(const About& about);
  /// Waits until the last save is committed or has failed; afterwards all ranks know which.
  void settle();
  /// The run ends: from now on a failure is told and not thrown.
  void tolerate_failures() { tolerates_ = true; }
  /// As of the last settle(): whether a checkpoint of this moment is committed.
  [[nodiscard]] bool has(const checkpoint::Moment& moment) const {
    return last_ == moment && committed_ == last_;
  }

  /// Tells what has become of the save under way, if it has ended. Throws Error(resource) after
  /// three or more failures in a row within which five minutes have passed, or where there is no
  /// older checkpoint to go on from.
  void poll();

 private:
  [[nodiscard]] bool leads() const { return place_.rank == 0; }
  void finish();
  void tell(const WriteOutcome& outcome);
  void count_failure(const std::string& failure);
  [[nodiscard]] std::string older_one() const;

  const Session& session_;
  Saving saving_;
  dist::Place place_;
  std::filesystem::path folder_;
  std::atomic<bool> cancelled_ = false;
  CheckpointWriter writer_;
  HostCopies copies_;
  Json meta_;
  WriteJob job_;
  About about_;
  std::future<WriteOutcome> under_way_;
  std::optional<checkpoint::Moment> last_;  // that was begun, or gone on from
  std::optional<checkpoint::Moment> committed_;
  double exposed_s_ = 0;  // of the save under way
  int failures_ = 0;      // in a row
  double failing_since_ = 0;
  bool tolerates_ = false;
};

/// Saves the state of a run as `checkpoint` of the configuration says: after epochs and steps, by
/// time, and where the run ends.
class Checkpointer final : public Observer {
 public:
  /// `check` throws where weights are not to be saved. All of it outlives the Checkpointer.
  using Check = std::function<void(const LoopState&)>;
  struct Parts {
    const Session& session;
    const Options& options;
    Phases& phases;
    const TrainingState& training;
    const dist::GradSync& sync;
    Saver& saver;
    Check check;
  };
  explicit Checkpointer(Parts parts) : parts_(std::move(parts)) {}

  void on_run_begin(LoopState& state) override;
  void on_step_end(LoopState& state) override;
  void on_train_epoch_end(LoopState& state) override;
  void on_epoch_end(LoopState& state) override;
  void on_epoch_report(LoopState& state) override;
  void on_train_end(LoopState& state) override;

 private:
  void copy(LoopState& state);
  void check_and_copy(LoopState& state);
  [[nodiscard]] Saver::About about(const LoopState& state, const char* reason) const;

  Parts parts_;
  /// Why on_epoch_report() writes the copy of the epoch; null: there is none. As on all ranks.
  const char* reason_ = nullptr;
  /// The checkpoint of an epoch that a limit has cut short.
  std::optional<Saver::About> truncated_epoch_;
};

}  // namespace trainctl::train
