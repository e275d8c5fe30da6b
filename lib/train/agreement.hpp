#pragma once

#include "base/clock.hpp"
#include "dist/communicator.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

namespace trainctl::train {

/// Why training should end before its last epoch.
enum class Stop { none, signal, time };

struct StopSources {
  const volatile int* signal = nullptr;  // 0, or the signal that asks for a stop
  std::optional<double> deadline = {};   // on the clock of the timer
};

/// Lets all ranks end after the same step, whoever was asked, and save after the same one, which
/// rank 0's clock decides. With several ranks on CPUs the wishes are summed in the background of
/// each step and read one step later; on GPUs they are exchanged at meeting points only, see
/// spec::agreement_every().
class Agreement {
 public:
  enum class Cadence { every_step, meeting_points };

  Agreement(dist::Communicator& communicator, StopSources sources, Cadence cadence);
  ~Agreement();
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  /// For a run that goes on: it may have passed already.
  void set_deadline(double deadline) { sources_.deadline = deadline; }

  enum class At { step, meeting_point };
  /// At the end of a step or of a batch of validation; `now` as of the timer.
  Stop after_step(At at, double now);
  /// What rank 0 says from now on of whether a save is due; the others are not asked.
  void wish_save(bool due) { wishes_save_ = due; }
  /// Whether all ranks save after the step that was given last: once for each wish.
  [[nodiscard]] bool save_agreed() const { return save_agreed_; }
  /// Waits for all ranks: between epochs.
  Stop settle(double now);
  /// This rank's own wish, without asking the others.
  [[nodiscard]] Stop own(double now) const;

 private:
  Stop read();
  void start(double now);

  dist::Communicator& communicator_;
  StopSources sources_;
  Cadence cadence_;
  bool alone_;
  at::Tensor wishes_;  // int32: [signal, time, save]
  bool wishes_save_ = false;
  bool save_agreed_ = false;
  std::unique_ptr<dist::Pending> pending_;
};

}  // namespace trainctl::train
