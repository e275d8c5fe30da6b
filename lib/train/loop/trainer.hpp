#pragma once

#include "base/error.hpp"
#include "train/debug/numerics_dump.hpp"
#include "train/loop/evaluator.hpp"
#include "train/loop/loop_state.hpp"
#include "train/loop/options.hpp"
#include "train/loop/progress_reporter.hpp"
#include "train/loop/session.hpp"
#include "train/measure/phase_timer.hpp"
#include "train/measure/profiler.hpp"
#include "train/measure/step_benchmark.hpp"
#include "train/measure/usage_meter.hpp"
#include "train/parallel/local_sgd.hpp"
#include "train/parallel/stop_consensus.hpp"
#include "train/state/best_weights.hpp"
#include "train/state/checkpointer.hpp"
#include "train/state/saved_state.hpp"
#include "train/state/weight_averaging.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::train {

/// What a checkpoint in the middle of an epoch means for the rest of it: that it follows, or that
/// all of it comes, since the data is another one. Weights, optimizer and steps are those of the
/// checkpoint either way.
enum class EpochUnderWay { goes_on, begins_anew };

/// The epoch loop. Knows the interfaces of the stages, never a concrete one.
class Trainer {
 public:
  /// Gives every rank rank 0's weights. `session` outlives the trainer.
  Trainer(const Session& session, Options options);

  /// Before run(): goes on from a checkpoint, with the next batch. On as many ranks as wrote it all
  /// numbers are as if the run had never stopped. Throws Error(checkpoint) naming what does not
  /// fit, Error(config) where another number of ranks cannot go on at that batch.
  void resume(const std::filesystem::path& checkpoint,
              EpochUnderWay epoch = EpochUnderWay::goes_on);
  /// Trains to the end and returns the last event. Throws Error(diverged) for a loss, a gradient
  /// or weights that are not finite, Error(data) from the loader, Error(rank_failed) or Error(hang)
  /// where another rank is lost.
  events::Finished run();
  /// After `run` threw: writes what is worth keeping, and gives back the memory of recorded steps.
  /// Never throws, so that it hides no cause.
  void rescue(ErrorKind cause) noexcept;

  [[nodiscard]] std::int64_t global_step() const { return position_.global_step; }
  [[nodiscard]] events::Phase phase() const { return phase_; }
  /// Where it goes on or stands: epoch and batches of it, as a manifest tells them.
  [[nodiscard]] Position next() const;
  /// Buckets in which gradients are exchanged, see GradSync::layout().
  [[nodiscard]] std::string buckets() const { return sync_->layout(); }
  /// After run(): a checkpoint of exactly where it ended is committed, and a run can go on from
  /// it. All ranks agree.
  [[nodiscard]] bool saved_the_end() const { return saved_the_end_; }

 private:
  void sanity_check();
  void heed_spent_time();
  /// Returns false where the epoch is not to be finished: a signal.
  bool train_epoch();
  /// Returns its first batch, which in an epoch that goes on is a later one.
  std::int64_t begin_epoch();
  /// Returns false where there is none.
  bool next_epoch();
  void train_batch(std::int64_t index);
  void open_window(std::int64_t first);
  void after_step();
  /// Local SGD: averages the weights where it is time to.
  void share_weights();
  [[nodiscard]] bool saves_by_steps() const;
  void check_loss(const char* which, double loss) const;
  void check_weights() const;
  void check_skipped() const;
  void tell_skipped() const;
  /// A cause that values which are not finite told, and one that a stopper did.
  [[noreturn]] void throw_diverged(const std::string& what, std::int64_t steps_ago = 0) const;
  [[noreturn]] void throw_rose(const std::string& what) const;
  [[nodiscard]] bool at_step_limit() const;
  [[nodiscard]] bool has_next_epoch() const;
  [[nodiscard]] std::int64_t rows_of(std::int64_t batch) const;
  [[nodiscard]] std::int64_t window_rows(std::int64_t first) const;

  /// Validation, best weights, early stopping, the event. Returns false after a signal.
  bool finish_epoch();
  /// The first half of it: what the epoch's metrics are and lead to. Returns false after a signal
  /// during validation, which then is to be done again.
  bool judge_epoch(events::EpochEnded& ended);
  void settle_best();
  void keep_best(bool improved);
  [[nodiscard]] const char* reason_to_save(bool improved) const;
  void settle_stop_reason();
  void time_epoch(events::EpochEnded& ended);
  void add_earlier_starts(events::EpochEnded& ended);
  void tell_share(const events::EpochEnded& ended);

  // trainer_resume.cpp
  void take_over_other_world(const SavedState& saved);
  void spread_sync_state(const SavedState& saved);
  void check_position(const checkpoint::Manifest& manifest) const;
  void check_rows() const;
  void forget_epoch();
  void fit_position(const checkpoint::Manifest& manifest);

  // trainer_state.cpp
  void memorise(Memo& memo);
  void memorise_stages(Memo& memo);
  [[nodiscard]] std::vector<StateTensor> state();
  [[nodiscard]] std::vector<StateTensor> saved_state();
  [[nodiscard]] checkpoint::Moment moment() const;
  void begin_saving();
  void save_if_due();
  void take_state();
  void copy_state();
  [[nodiscard]] Saver::About about(const char* reason) const;
  void write_state(const char* reason);
  void take_cut();
  void write_cut();
  void save_end();
  [[nodiscard]] std::uint64_t state_bytes();
  void beat(events::Phase phase) const;
  std::optional<events::Metrics> validate(std::optional<std::int64_t> limit);
  void judge_step(std::optional<double> loss);
  void judge(const events::Metrics& metrics, events::EpochEnded& ended);
  void emit_tables(std::vector<events::TableRow> rows) const;
  void add_probes(events::EpochEnded& ended);
  /// What a step takes whose batch is always there, where that is cheap to find out; when all is
  /// written.
  void replay_last_batch(events::Finished& finished);
  [[nodiscard]] WeightAverager* averager() { return averager_ ? &*averager_ : nullptr; }
  std::string epoch_digest();
  void show_parts();
  void finish_profile();
  events::Finished finish();

  const Session& session_;
  Options options_;
  double begun_;  // on the session's clock; where the run goes on: as if it had never stopped
  PartTimer timer_;
  std::unique_ptr<Saver> saver_;  // null: none are written. Before ranks meet
  std::unique_ptr<dist::GradSync> sync_;
  std::unique_ptr<device::Feed> feed_;
  StepRunner step_;
  std::unique_ptr<NumericsDump> dump_;
  std::optional<Evaluator> evaluator_;
  std::optional<WeightAverager> averager_;
  std::optional<LocalSgd> local_sgd_;
  bool ranks_alike_ = true;           // as of the last step: their weights are the same
  std::optional<Profiler> profiler_;  // of rank 0
  std::optional<PartRanges> ranges_;  // of every rank, with profiler.nvtx
  Keeper keeper_;
  Reporter reporter_;
  SkippedReport skipped_;
  Agreement agreement_;
  Position position_;
  events::Phase phase_ = events::Phase::startup;
  Stop stop_ = Stop::none;
  std::string stop_reason_;  // set where the run ends before its last epoch
  std::string early_reason_;
  std::string diverged_reason_;  // of the stopper
  std::int64_t epochs_done_ = 0;
  std::int64_t window_rows_ = 0;
  std::int64_t told_steps_ = 0;  // the global step up to which shares of ranks are told
  std::int64_t rows_in_epoch_ = 0;
  std::int64_t rows_before_ = 0;  // of these: before this process
  events::Timing earlier_;        // of the epoch: the time that earlier processes spent on it
  events::Timing saved_times_;    // the same as of the last checkpoint, with this process's
  bool resumed_ = false;
  bool goes_on_ = false;     // the epoch that comes next was begun by another process
  bool epoch_done_ = false;  // the epoch of position_, with all that comes behind it
  bool stepped_ = false;     // this process has begun a step
  bool saved_the_end_ = false;
  std::optional<Saver::About> cut_;  // the checkpoint of an epoch that a limit has cut short
  std::filesystem::path resumed_from_;
  double saved_at_ = 0;                // on the session's clock
  std::optional<double> epoch_value_;  // of the monitor, in the epoch that is done
  double lr_ = 0;
  std::uint64_t digest_ = 0;  // of the epoch, this rank's part
  RunDigest run_digest_;
  UsageMeter usage_;
  ReplayCost replay_cost_;
  const device::DeviceBatch* last_batch_ = nullptr;  // the feed's
  double cpu_before_ = 0;
  std::int64_t read_before_ = 0;
};

/// Running statistics are of the samples that a rank saw: those of rank 0 count.
void share_buffers(const Session& session);

/// Weights and buffers of rank 0 on every rank, and what exchanges the gradients: in steps that are
/// recorded, too, where `options` has them. Throws Error(config) on all ranks where one has other
/// parameters or buffers than rank 0, naming the first that differs.
std::unique_ptr<dist::GradSync> synchronise(const Session& session, const Options& options);

}  // namespace trainctl::train
