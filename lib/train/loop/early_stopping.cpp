#include "train/loop/early_stopping.hpp"

namespace trainctl::train {

void EarlyStopping::on_step_end(LoopState& state) {
  if (!logs_step(options_, state) || !state.logged_loss) return;
  const stage::StopDecision decision =
      session_.stopper->observe_step(state.position.global_step, *state.logged_loss);
  if (decision.diverged) state.diverged = {.what = decision.reason, .from_stopper = true};
}

void EarlyStopping::on_validation_end(LoopState& state) {
  const auto value = events::find_metric(state.report.metrics, session_.stopper->monitor());
  if (!value) return;
  state.decision = session_.stopper->observe(state.position.epoch, *value);
  if (!state.decision.stop) {
    state.decision.diverged = false;
  } else if (!state.decision.diverged) {
    state.early_reason = state.decision.reason;
  }
}

/// The run fails here and not earlier, so that the epoch is reported; nothing of it is saved.
void EarlyStopping::on_epoch_report(LoopState& state) {
  if (state.decision.diverged)
    state.diverged = {.what = state.decision.reason, .from_stopper = true};
}

}  // namespace trainctl::train
