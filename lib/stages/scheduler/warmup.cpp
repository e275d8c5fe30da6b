#include "stages/scheduler/warmup.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace trainctl::stages {

using spec::scheduler::Interval;

namespace {

constexpr auto kUnknownLength =
    "is not known in advance\nhint: set trainer.max_epochs or trainer.max_steps";

}  // namespace

WarmedUp::WarmedUp(const spec::scheduler::Warmup& warmup, const stage::SchedulerContext& context)
    : warmup_options_(warmup), context_(context) {
  const auto length = spec::scheduler::intervals_of(
      warmup.warmup, {warmup.interval, context.steps_per_epoch, run_intervals()});
  ENSURE(config, length, "warmup {} is a fraction of the run, whose length {}", warmup.warmup.value,
         kUnknownLength);
  warmup_intervals_ = *length;
}

double WarmedUp::lr(std::int64_t epoch, std::int64_t global_step) const {
  const std::int64_t t = since_warmup(epoch, global_step);
  if (t >= 0) return curve(t);
  const double progress =
      static_cast<double>(t + warmup_intervals_) / static_cast<double>(warmup_intervals_);
  const double start = warmup_options_.warmup_start_factor;
  return initial_lr() * (start + (1 - start) * progress);
}

std::int64_t WarmedUp::since_warmup(std::int64_t epoch, std::int64_t global_step) const {
  return (warmup_options_.interval == Interval::epoch ? epoch : global_step) - warmup_intervals_;
}

std::int64_t WarmedUp::intervals_after_warmup() const {
  const std::optional<std::int64_t> run = run_intervals();
  ENSURE(config, run, "the length of the run {}", kUnknownLength);
  ENSURE(config, *run > warmup_intervals_,
         "the warm-up of {} must be shorter than the run of {}\nhint: shorten warmup",
         spec::scheduler::counted(warmup_intervals_, warmup_options_.interval),
         spec::scheduler::counted(*run, warmup_options_.interval));
  return *run - warmup_intervals_;
}

std::optional<std::int64_t> WarmedUp::run_intervals() const {
  if (context_.max_epochs <= 0) return std::nullopt;
  const std::int64_t all = intervals(context_.max_epochs);
  const bool by_step = warmup_options_.interval == Interval::step;
  return by_step ? std::min(all, context_.max_steps.value_or(all)) : all;
}

std::int64_t WarmedUp::length_or_rest(const config::Auto<std::int64_t>& length,
                                      const char* key) const {
  if (!length.is_auto()) return *length.value;
  return in_context(fmt::format("'{}' is auto", key), [&] { return intervals_after_warmup(); });
}

bool WarmedUp::is_warming_up(std::int64_t epoch) const {
  return intervals(epoch) < warmup_intervals_;
}

std::int64_t WarmedUp::intervals(std::int64_t epochs) const {
  return warmup_options_.interval == Interval::epoch ? epochs : epochs * context_.steps_per_epoch;
}

}  // namespace trainctl::stages
