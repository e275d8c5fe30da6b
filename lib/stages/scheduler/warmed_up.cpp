#include "stages/scheduler/warmed_up.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace trainctl::stages {

using spec::scheduler::Interval;

double WarmedUp::lr(std::int64_t epoch, std::int64_t global_step) const {
  const std::int64_t t = since_warmup(epoch, global_step);
  if (t >= 0) return curve(t);
  const double progress =
      static_cast<double>(t + warmup_.warmup) / static_cast<double>(warmup_.warmup);
  const double start = warmup_.warmup_start_factor;
  return initial_lr() * (start + (1 - start) * progress);
}

std::int64_t WarmedUp::since_warmup(std::int64_t epoch, std::int64_t global_step) const {
  return (warmup_.interval == Interval::epoch ? epoch : global_step) - warmup_.warmup;
}

std::int64_t WarmedUp::intervals_after_warmup() const {
  ENSURE(config, context_.max_epochs > 0,
         "the length of the run is not known beforehand: set trainer.max_epochs or "
         "trainer.max_steps");
  const std::int64_t all = intervals(context_.max_epochs);
  const bool by_step = warmup_.interval == Interval::step;
  const std::int64_t run = by_step ? std::min(all, context_.max_steps.value_or(all)) : all;
  ENSURE(config, run > warmup_.warmup,
         "the warm-up of {} leaves nothing of the run of {}: shorten warmup", warmup_.warmup, run);
  return run - warmup_.warmup;
}

std::int64_t WarmedUp::length_or_rest(const config::Auto<std::int64_t>& length,
                                      const char* key) const {
  if (!length.is_auto()) return *length.value;
  return in_context(fmt::format("'{}' is auto", key), [&] { return intervals_after_warmup(); });
}

bool WarmedUp::warming_up(std::int64_t epoch) const { return intervals(epoch) < warmup_.warmup; }

std::int64_t WarmedUp::intervals(std::int64_t epochs) const {
  return warmup_.interval == Interval::epoch ? epochs : epochs * context_.steps_per_epoch;
}

}  // namespace trainctl::stages
