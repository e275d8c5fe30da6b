#include "train/debug/numerics_guard.hpp"

#include "base/numbers.hpp"
#include "train/state/weights.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace trainctl::train {
namespace {

constexpr const char* kLowerRate = "lower optimizer.lr or set trainer.gradient_clip_val";
constexpr const char* kFindLayer =
    "lower optimizer.lr, set trainer.gradient_clip_val, or find the layer with "
    "trainer.detect_anomaly=true";

}  // namespace

NumericsGuard::NumericsGuard(const Session& session, const Options& options, const Phases& phases,
                             const StepRunner& step)
    : session_(session), options_(options), phases_(phases), step_(step), dump_(session, options) {}

void NumericsGuard::check(StepRunner::Result result, const LoopState& state) {
  if (result == StepRunner::Result::not_finite) fail({"the training loss is not finite"}, state);
  if (result == StepRunner::Result::gradient_not_finite)
    fail({"the gradient is not finite"}, state);
}

void NumericsGuard::check_loss(const char* split, double loss, const LoopState& state) {
  if (!std::isfinite(loss)) fail({fmt::format("the {} loss is {}", split, loss)}, state);
}

/// The loss of the last step was that of the weights before it.
void NumericsGuard::check_weights(const LoopState& state) {
  const std::string name = not_finite(weights_of(session_.model));
  if (!name.empty()) fail({fmt::format("'{}' holds values that are not finite", name)}, state);
}

void NumericsGuard::check_skipped(const LoopState& state) {
  if (step_.scaler() == nullptr) return;
  const std::int64_t skipped = step_.scaler()->most_skipped_in_a_row();
  if (skipped <= options_.may_skip) return;
  if (step_.scaler()->stays_out()) fail({"the gradient is not finite", skipped}, state);
  fail({fmt::format("the gradients of {} step{} in a row were not finite", skipped,
                    plural(skipped))},
       state);
}

/// A GPU is asked at log points only, because reading its counter waits for it.
void NumericsGuard::on_step_end(LoopState& state) {
  if (options_.device.is_cpu() || logs_step(options_, state)) check_skipped(state);
}

void NumericsGuard::on_train_epoch_end(LoopState& state) {
  if (options_.may_skip > 0 && step_.meter().weight() == 0)
    fail({"no step of the epoch had a finite loss"}, state);
  check_skipped(state);
  dump_.end();
}

void NumericsGuard::on_run_end(LoopState& state) {
  if (step_.scaler() == nullptr || session_.communicator.place().rank != 0) return;
  const std::int64_t skipped = step_.scaler()->skipped();
  if (skipped == 0) return;
  std::string message =
      fmt::format("{} of {} steps were left out, because a gradient was not finite", skipped,
                  state.position.global_step);
  if (options_.forward.precision == spec::Precision::fp16_mixed)
    message += fmt::format("; the loss is scaled by {:g} now", step_.scaler()->current_scale());
  session_.emit(events::Warning{message, {}});
}

/// A GPU reports late, but its flag stays set: the steps since then say which one it was.
void NumericsGuard::fail(const DivergenceCause& cause, const LoopState& state) {
  phases_.stamp(phases_.current());  // the supervisor names the step that it reads
  const std::int64_t steps_ago = cause.steps_ago;
  const std::string where =
      fmt::format("{} at step {} of epoch {}", cause.what, state.position.global_step - steps_ago,
                  state.position.epoch + 1);
  if (cause.from_stopper)
    throw Error(ErrorKind::diverged, fmt::format("{}: {}", where, kLowerRate));
  std::string seen;
  if (steps_ago > 0)
    seen = fmt::format(", seen after step {}; the weights {}", state.position.global_step,
                       step_.keeps_weights() ? "are those before it" : "have taken it in since");
  const std::string anomaly = step_.anomaly();
  if (!anomaly.empty()) seen += fmt::format("; the first value that is not finite: {}", anomaly);
  const double scale = step_.scaler() != nullptr ? step_.scaler()->current_scale() : 1;
  const std::string dump = dump_.write(
      {cause.what, state.position, steps_ago, scale, steps_ago == 0 || step_.keeps_weights()});
  throw Error(ErrorKind::diverged,
              fmt::format("{}{}: {}{}", where, seen,
                          options_.detect_anomaly ? kLowerRate : kFindLayer, dump));
}

}  // namespace trainctl::train
