#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/phases.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace trainctl::train {

/// The sources of a rank's stop request.
struct StopSources {
  const volatile int* signal = nullptr;  // 0, or the signal that requests a stop
  std::optional<double> deadline = {};   // on the clock of the timer
};

/// Makes all ranks stop after the same step, whichever rank received the request, and save after
/// the same step, which rank 0's clock decides. On CPUs an all-reduce sums the requests in the
/// background of a step, about every kEvery_s as estimated by rank 0 in steps, and they are read
/// one step later. On GPUs they are exchanged at synchronization points only, see
/// spec::agreement_every(), and read at the next one, so that the host does not wait for the
/// device.
class StopConsensus {
 public:
  enum class Cadence { by_time, sync_points };
  static constexpr double kEvery_s = 0.05;
  static constexpr std::int32_t kMostSteps = 16;  // between two exchanges

  StopConsensus(dist::Communicator& communicator, StopSources sources, Cadence cadence);

  /// Sets the deadline of a resumed run, which may be in the past.
  void set_deadline(double deadline) { sources_.deadline = deadline; }

  /// Starts a phase whose steps may take longer, such as the batches of a validation. Call it on
  /// all ranks. They exchange requests after the first step and measure the step time again.
  void begin_phase();

  enum class At { step, sync_point };
  /// Call it at the end of a step or of a validation batch; `now` is the timer's time.
  Stop after_step(At at, double now);
  /// Sets whether a save is due from now on. Only rank 0's value counts.
  void request_save(bool due) { save_is_due_ = due; }
  /// Sets the number that describes the saves that have ended. Only rank 0's number counts.
  void report_saves(std::int32_t ended) { ended_saves_ = ended; }
  /// Returns the number that rank 0 had at the last exchange that was read.
  [[nodiscard]] std::int32_t ended_saves() const { return agreed_saves_; }
  /// Returns whether all ranks save after the last step; true once for each request.
  [[nodiscard]] bool save_agreed() const { return save_agreed_; }
  /// Waits for all ranks and returns their decision. Call it between epochs.
  Stop settle(double now);
  /// Returns this rank's own request without communication.
  [[nodiscard]] Stop own(double now) const;

 private:
  Stop read();
  void start(double now);
  Stop meet(double now);
  std::int32_t steps_until_next(double now);

  dist::Communicator& communicator_;
  StopSources sources_;
  Cadence cadence_;
  bool alone_;
  at::Tensor requests_;  // int32: [signal, time, save, steps until the next exchange, ended saves]
  std::int32_t ended_saves_ = 0;
  std::int32_t agreed_saves_ = 0;
  bool save_is_due_ = false;
  bool save_agreed_ = false;
  bool begins_ = true;           // the first step of a phase has not ended yet
  std::int32_t steps_left_ = 0;  // the same on all ranks
  // On rank 0: the last interval that it sent, the number of steps since the last exchange, and the
  // time of that exchange.
  std::int32_t steps_between_ = 1;
  std::int32_t steps_since_start_ = 0;
  std::optional<double> started_at_;
  std::optional<double> stepped_at_;  // end of the previous step
  double last_step_s_ = 0;
  dist::Pending pending_;  // empty: no exchange is pending
};

/// Ends the run after the same step on all ranks: on a signal, or when trainer.max_time has passed.
/// It also agrees on saves by time (checkpoint.every_t).
class StopObserver final : public Observer {
 public:
  StopObserver(const Session& session, const Options& options, Phases& phases);

  void on_run_begin(LoopState& state) override;
  void on_epoch_begin(LoopState& /*state*/) override { consensus_.begin_phase(); }
  void on_step_end(LoopState& state) override;
  void on_validation_begin(LoopState& /*state*/) override { consensus_.begin_phase(); }
  void on_interval_validation_end(LoopState& /*state*/) override { consensus_.begin_phase(); }
  void on_validation_batch_end(LoopState& state) override;
  void on_epoch_end(LoopState& state) override;

 private:
  const Session& session_;
  const Options& options_;
  Phases& phases_;
  bool alone_;
  StopConsensus consensus_;
};

}  // namespace trainctl::train
