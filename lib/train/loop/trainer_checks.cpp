#include "train/loop/trainer.hpp"

#include <cmath>

namespace trainctl::train {

void Trainer::check_loss(const char* which, double loss) const {
  if (!std::isfinite(loss)) throw_diverged(fmt::format("the {} loss is {}", which, loss));
}

/// Before they are judged or written; the loss of the last step was of the weights before it.
void Trainer::check_weights() const {
  const std::string name = not_finite(weights_of(session_.model));
  if (!name.empty()) throw_diverged(fmt::format("'{}' holds values that are not finite", name));
}

void Trainer::check_skipped() const {
  if (step_.scaler() == nullptr) return;
  const std::int64_t skipped = step_.scaler()->most_skipped_in_a_row();
  if (skipped <= options_.may_skip) return;
  if (step_.scaler()->stays_out()) throw_diverged("the gradient is not finite", skipped);
  throw_diverged(fmt::format("the gradients of {} step{} in a row were not finite", skipped,
                             skipped == 1 ? "" : "s"));
}

void Trainer::tell_skipped() const {
  if (step_.scaler() == nullptr || session_.communicator.place().rank != 0) return;
  const std::int64_t skipped = step_.scaler()->skipped();
  if (skipped == 0) return;
  std::string message =
      fmt::format("{} of {} steps were left out, because a gradient was not finite", skipped,
                  position_.global_step);
  if (options_.forward.precision == spec::Precision::fp16_mixed)
    message += fmt::format("; the loss is scaled by {:g} now", step_.scaler()->current_scale());
  session_.emit(events::Warning{message, {}});
}

/// A GPU tells late, but its flag stays up: the steps since then tell which one it was.
void Trainer::throw_diverged(const std::string& what, std::int64_t steps_ago) const {
  std::string seen;
  if (steps_ago > 0)
    seen = fmt::format(", seen after step {}; the weights {}", position_.global_step,
                       step_.keeps_weights() ? "are those before it" : "have taken it in since");
  const std::string found = step_.anomaly();
  const std::string first =
      found.empty() ? "" : fmt::format("; the first value that is not finite: {}", found);
  const double scale = step_.scaler() != nullptr ? step_.scaler()->current_scale() : 1;
  const std::string dump =
      dump_->write({what, position_, steps_ago, scale, steps_ago == 0 || step_.keeps_weights()});
  const char* cure = options_.detect_anomaly
                         ? "lower optimizer.lr or set trainer.gradient_clip_val"
                         : "lower optimizer.lr, set trainer.gradient_clip_val, or find the layer "
                           "with trainer.detect_anomaly=true";
  throw Error(ErrorKind::diverged, fmt::format("{} at step {} of epoch {}{}{}: {}{}", what,
                                               position_.global_step - steps_ago,
                                               position_.epoch + 1, seen, first, cure, dump));
}

void Trainer::throw_rose(const std::string& what) const {
  throw Error(ErrorKind::diverged,
              fmt::format("{} at step {} of epoch {}: lower optimizer.lr or set "
                          "trainer.gradient_clip_val",
                          what, position_.global_step, position_.epoch + 1));
}

}  // namespace trainctl::train
