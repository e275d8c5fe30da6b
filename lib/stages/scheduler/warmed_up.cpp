#include "stages/scheduler/warmed_up.hpp"

namespace trainctl::stages {

using spec::scheduler::Interval;

double WarmedUp::lr(std::int64_t epoch, std::int64_t global_step) const {
  const std::int64_t t = warmup_.interval == Interval::epoch ? epoch : global_step;
  if (t >= warmup_.warmup) return curve(t - warmup_.warmup);
  const double progress = static_cast<double>(t) / static_cast<double>(warmup_.warmup);
  const double start = warmup_.warmup_start_factor;
  return initial_lr() * (start + (1 - start) * progress);
}

std::int64_t WarmedUp::intervals_after_warmup() const { return intervals(context_.max_epochs) - warmup_.warmup; }

bool WarmedUp::warming_up(std::int64_t epoch) const { return intervals(epoch) < warmup_.warmup; }

std::int64_t WarmedUp::intervals(std::int64_t epochs) const {
  return warmup_.interval == Interval::epoch ? epochs : epochs * context_.steps_per_epoch;
}

}  // namespace trainctl::stages
