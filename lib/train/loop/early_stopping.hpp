#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/session.hpp"

namespace trainctl::train {

/// Asks the session's stopper whether training should end. Every rank asks with about the same
/// values.
class EarlyStopping final : public Observer {
 public:
  /// `session` must outlive it and have a stopper.
  EarlyStopping(const Session& session, const Options& options)
      : session_(session), options_(options) {}

  void on_step_end(LoopState& state) override {
    if (!logs_step(options_, state) || !state.logged_loss) return;
    const stage::StopDecision decision =
        session_.stopper->observe_step(state.position.global_step, *state.logged_loss);
    if (decision.diverged) state.diverged = {.what = decision.reason, .from_stopper = true};
  }

  void on_validation_end(LoopState& state) override {
    const auto value = events::find_metric(state.report.metrics, session_.stopper->monitor());
    if (!value) return;
    state.decision = session_.stopper->observe(state.position.epoch, *value);
    if (!state.decision.stop) {
      state.decision.diverged = false;
    } else if (!state.decision.diverged) {
      state.early_reason = state.decision.reason;
    }
  }

  /// A divergence fails the run here and not earlier, so that the epoch is reported. The epoch is
  /// not saved.
  void on_epoch_report(LoopState& state) override {
    if (state.decision.diverged)
      state.diverged = {.what = state.decision.reason, .from_stopper = true};
  }

  [[nodiscard]] std::string_view state_key() const override { return "stopper"; }
  void serialize(StateArchive& archive) override { session_.stopper->serialize(archive); }

 private:
  const Session& session_;
  const Options& options_;
};

}  // namespace trainctl::train
