#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/session.hpp"

#include <optional>
#include <string_view>
#include <utility>

namespace trainctl::train {

/// Asks the session's stopper whether training should end. Every rank asks with about the same
/// values.
class EarlyStopping final : public Observer {
 public:
  /// `session` must outlive it and have a stopper.
  explicit EarlyStopping(const Session& session) : session_(session) {}

  void on_step_end(LoopState& state) override { observe_logged_loss(state); }
  void on_train_epoch_end(LoopState& state) override { observe_logged_loss(state); }

  /// Passes the loss of a log point to the stopper, once.
  void observe_logged_loss(LoopState& state) {
    const auto loss = std::exchange(state.logged_loss, std::nullopt);
    if (!loss) return;
    const stage::StopDecision decision = session_.stopper->observe_step(state.logged_step, *loss);
    if (decision.diverged) state.diverged = {.what = decision.reason, .from_stopper = true};
  }

  void on_interval_validation_end(LoopState& state) override { observe(state, state.validated); }
  /// A validation within the epoch may have decided already.
  void on_validation_end(LoopState& state) override {
    if (!ends_early(state)) observe(state, state.report.metrics);
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
  void observe(LoopState& state, const events::Metrics& metrics) {
    const auto value = events::find_metric(metrics, session_.stopper->monitor());
    if (!value) return;
    state.decision = session_.stopper->observe(state.position.epoch, *value);
    if (!state.decision.stop) {
      state.decision.diverged = false;
    } else if (!state.decision.diverged) {
      state.early_reason = state.decision.reason;
    }
  }

  const Session& session_;
};

}  // namespace trainctl::train
