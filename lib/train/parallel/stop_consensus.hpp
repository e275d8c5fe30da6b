#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace trainctl::train {

struct StopSources {
  const volatile int* signal = nullptr;  // 0, or the signal that asks for a stop
  std::optional<double> deadline = {};   // on the clock of the timer
};

/// Lets all ranks end after the same step, whoever was asked, and save after the same one, which
/// rank 0's clock decides. On CPUs the requests are summed in the background of a step, about every
/// kEvery_s as rank 0 counts it in steps, and read one step later. On GPUs they are exchanged at
/// meeting points only, see spec::agreement_every().
class Agreement {
 public:
  enum class Cadence { by_time, meeting_points };
  static constexpr double kEvery_s = 0.05;
  static constexpr std::int32_t kMostSteps = 16;  // between two exchanges

  Agreement(dist::Communicator& communicator, StopSources sources, Cadence cadence);
  ~Agreement();
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  /// For a run that goes on: it may have passed already.
  void set_deadline(double deadline) { sources_.deadline = deadline; }

  /// On all ranks, before steps that may take longer than those so far, as batches of validation:
  /// they exchange after the first of them, and find out anew how long a step takes.
  void begin_phase();

  enum class At { step, meeting_point };
  /// At the end of a step or of a batch of validation; `now` as of the timer.
  Stop after_step(At at, double now);
  /// What rank 0 says from now on of whether a save is due; the others are not asked.
  void request_save(bool due) { save_is_due_ = due; }
  /// Whether all ranks save after the step that was given last: once for each request.
  [[nodiscard]] bool save_agreed() const { return save_agreed_; }
  /// Waits for all ranks: between epochs.
  Stop settle(double now);
  /// This rank's own request, without asking the others.
  [[nodiscard]] Stop own(double now) const;

 private:
  Stop read();
  void start(double now);
  std::int32_t steps_until_next(double now);

  dist::Communicator& communicator_;
  StopSources sources_;
  Cadence cadence_;
  bool alone_;
  at::Tensor requests_;  // int32: [signal, time, save, steps until the next exchange]
  bool save_is_due_ = false;
  bool save_agreed_ = false;
  bool begins_ = true;           // the first step of a phase is yet to come
  std::int32_t steps_left_ = 0;  // the same on all ranks
  // Of rank 0: what it said last, how many steps the last exchange is back, and when it began.
  std::int32_t steps_between_ = 1;
  std::int32_t steps_since_start_ = 0;
  std::optional<double> started_at_;
  std::optional<double> stepped_at_;  // the end of the step before
  double last_step_s_ = 0;
  dist::Pending pending_;  // empty: no exchange is under way
};

/// Ends the run after the same step on all ranks: at a signal, or when trainer.max_time has passed.
/// It also agrees on saves by time (checkpoint.every_t).
class StopConsensus final : public Observer {
 public:
  StopConsensus(const Session& session, const Options& options, Phases& phases);

  void on_run_begin(LoopState& state) override;
  void on_epoch_begin(LoopState& /*state*/) override { agreement_.begin_phase(); }
  void on_step_end(LoopState& state) override;
  void on_validation_begin(LoopState& /*state*/) override { agreement_.begin_phase(); }
  void on_validation_batch_end(LoopState& state) override;
  void on_epoch_end(LoopState& state) override;

 private:
  const Session& session_;
  const Options& options_;
  Phases& phases_;
  bool alone_;
  Agreement agreement_;
};

}  // namespace trainctl::train
