#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace trainctl::train {

/// Reports the progress of training: to the supervisor's heartbeat at every step, to the progress
/// bar a few times per second, to the log every trainer.log_every_n_steps; at the end of an epoch
/// metrics, tables and times. Only rank 0 reports progress; each rank reports its share of the
/// time.
class ProgressReporter final : public Observer {
 public:
  ProgressReporter(const Session& session, const Options& options, const Phases& phases,
                   const StepRunner& step, const dist::GradSync& sync);

  void on_run_begin(LoopState& state) override;
  void on_epoch_begin(LoopState& state) override;
  void on_step_end(LoopState& state) override;
  void on_validation_batch_end(LoopState& state) override;
  void on_validation_end(LoopState& state) override;
  void on_epoch_report(LoopState& state) override;
  void on_run_end(LoopState& state) override;

  [[nodiscard]] std::string_view state_key() const override { return "reporter"; }
  /// Serializes what a log line in the middle of an epoch needs from the steps before it.
  void serialize(StateArchive& archive) override;

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
  [[nodiscard]] Mark now() const { return {step_.meter().total(), step_.meter().weight()}; }
  /// Returns the mean loss since the last log point over all ranks; nullopt if every loss since
  /// then was skipped.
  std::optional<double> mean_since_log();
  void log(LoopState& state);
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
  Mark log_mark_;
  std::int64_t reported_steps_ = 0;  // global step up to which report_rank() has reported
  std::set<std::string> skipped_;    // samples that were reported, with their split
};

}  // namespace trainctl::train
