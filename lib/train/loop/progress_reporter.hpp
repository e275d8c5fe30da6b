#pragma once

#include "device/event.hpp"
#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trainctl::train {

/// Reports the progress of training: to the supervisor's heartbeat at every step, to the progress
/// bar a few times per second, to the log every trainer.log_every_n_steps; at the end of an epoch
/// metrics, tables and times. Only rank 0 reports progress; each rank reports its share of the
/// time.
///
/// On a GPU, a log point starts to copy its values and does not wait for them. Its line is emitted
/// at the first step that finds them on the host. What depends on them, such as a divergence, is
/// decided at the next log point or settle(), so that all ranks decide at the same step.
class ProgressReporter final : public Observer {
 public:
  ProgressReporter(const Session& session, const Options& options, const Phases& phases,
                   const StepRunner& step, const dist::GradSync& sync);

  /// Emits the line of the last log point, for which it may wait, and decides nothing.
  void emit_line(LoopState& state);
  /// Reads the values of the last log point and decides what depends on them: sets `logged_loss`,
  /// or `diverged`.
  void settle(LoopState& state);

  void on_run_begin(LoopState& state) override;
  void on_epoch_begin(LoopState& state) override;
  void on_step_end(LoopState& state) override;
  void on_train_epoch_end(LoopState& state) override { settle(state); }
  void on_train_end(LoopState& state) override { settle(state); }
  /// Keeps the lines of metrics.jsonl in the order of their steps.
  void on_validation_begin(LoopState& state) override { emit_line(state); }
  void on_validation_batch_end(LoopState& state) override;
  void on_validation_end(LoopState& state) override;
  void on_epoch_report(LoopState& state) override;
  void on_run_end(LoopState& state) override;

  [[nodiscard]] std::string_view state_key() const override { return "reporter"; }
  /// Serializes what a log line in the middle of an epoch needs from the steps before it, and the
  /// log point that is not settled. Their values on a GPU are in tensors(), so that a checkpoint
  /// does not wait for them.
  void serialize(StateArchive& archive) override;
  [[nodiscard]] std::vector<StateTensor> tensors() const override;

 private:
  /// Sums of the meter at a step.
  struct Mark {
    double total = 0;
    double weight = 0;

    void serialize(StateArchive& archive) {
      archive.value("total", &total);
      archive.value("weight", &weight);
    }
  };
  /// The values of a log point, by index in the tensor that the device computes. The last two are
  /// the sums of the meter, from which the next log point counts.
  enum Value : std::int64_t {
    kTotal,
    kWeight,
    kSkipped,
    kGradNorm,
    kParamNorm,
    kMark,
    kValues = 7
  };
  struct LogPoint {
    events::StepLogged line;  // without its values
    bool emits = true;        // false: the process that saved the checkpoint has emitted the line
    bool is_read = false;
    std::optional<double> loss = {};  // nullopt: every loss since the last log point was skipped
    std::int64_t skipped = 0;         // the longest series of skipped steps so far
  };

  [[nodiscard]] Mark now() const { return {step_.meter().total(), step_.meter().weight()}; }
  [[nodiscard]] at::Tensor mark() const { return log_point_.narrow(0, kMark, 2); }
  void serialize_mark(StateArchive& archive);
  void serialize_log_point(StateArchive& archive);
  void compute_values();
  void log(LoopState& state);
  void read_values(LoopState& state);
  void show(events::Phase phase, const Position& position, double time);
  void report_skipped(const std::string& split, const data::Loader& loader);
  void report_rank(const LoopState& state);

  const Session& session_;
  const Options& options_;
  const Phases& phases_;
  const StepRunner& step_;
  const dist::GradSync& sync_;
  bool leads_;
  double begun_;
  double last_progress_;
  std::optional<double> shown_loss_;
  Mark progress_mark_;
  at::Tensor log_point_;  // float64 [kValues] on the device
  device::LateValues values_;
  std::optional<LogPoint> logged_;   // not settled
  std::int64_t reported_steps_ = 0;  // global step up to which report_rank() has reported
  std::set<std::string> skipped_;    // samples that were reported, with their split
};

}  // namespace trainctl::train
