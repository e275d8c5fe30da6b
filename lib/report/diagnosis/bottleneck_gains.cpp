#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "report/diagnosis/bottleneck_rules.hpp"

namespace trainctl::report {
namespace gains {
namespace {

constexpr double kReplayMargin = 0.15;  // maximum relative error of a replay
constexpr double kCoresBusy = 0.8;
constexpr double kStalledShare = 0.10;     // of the time threads wait for a core
constexpr std::int64_t kFewestSteps = 10;  // per epoch with a larger batch
constexpr double kTinyStep = 1e-3;         // in seconds
constexpr std::int64_t kTinyBatch = 8;

/// Returns the seconds of all that computes in a step: the device phases except the copies and the
/// exchange of gradients, and what belongs to no phase.
double computing_s(const events::Timing& timing) {
  double seconds = 0;
  for (const events::TimingPhase& phase : events::kTimingPhases) {
    const bool computes = phase.kind == events::PhaseKind::device &&
                          phase.seconds != &events::Timing::h2d_s &&
                          phase.seconds != &events::Timing::allreduce_exposed_s;
    if (computes) seconds += timing.*phase.seconds;
  }
  return seconds + timing.other_s;
}

/// Returns whether threads of the run may compete for cores.
bool cores_are_contended(const BottleneckInputs& facts) {
  const BottleneckContext& context = facts.context;
  const bool waits = context.usage && context.usage->cpu_stalled.value_or(0) >= kStalledShare;
  const int cores = context.cores();
  return waits || cores <= 0 || facts.timing.cpu_percent / 100 >= kCoresBusy * cores;
}

/// Returns the gain if the passes take `ratio` of their time; `most` limits the gain of the whole
/// run.
Gain replayed(const BottleneckInputs& facts, double ratio, double most) {
  const double wall_s = facts.timing.wall_s;
  const double slow_s = wall_s - passes_s(facts.timing) * (1 - ratio * (1 + kReplayMargin));
  return {.low = std::min(wall_s / std::max(slow_s, 1e-9), most), .high = most, .replayed = true};
}

std::optional<double> ratio_of(const BottleneckInputs& facts, double step_s) {
  const auto& now_s = facts.context.replay_step_s;
  if (!now_s || !(*now_s > 0) || !(step_s > 0)) return std::nullopt;
  return step_s / *now_s;
}

/// Returns a completed check: excluded by a rule, or with the gain of the alternative.
SettingCheck done(const char* key, std::string text) {
  return {.key = key, .done = true, .text = std::move(text)};
}
SettingCheck done(const char* key, const std::string& alternative, const Gain& gain) {
  return {.key = key,
          .done = true,
          .gain = gain,
          .text = fmt::format("{} ({})", alternative, text_of(gain))};
}
SettingCheck not_done(const char* key) { return {.key = key, .text = "not tried"}; }

SettingCheck check_of_batch(const BottleneckInputs& facts) {
  constexpr const char* kKey = "loader.batch_size";
  const BottleneckContext& context = facts.context;
  if (!context.larger_batch || !context.replay_step_s || context.batch_size <= 0)
    return not_done(kKey);
  const auto factor =
      static_cast<double>(context.larger_batch->value) / static_cast<double>(context.batch_size);
  return done(kKey, "a batch of " + with_thousands(context.larger_batch->value),
              of_larger_batch(facts, factor));
}

SettingCheck check_of_threads(const BottleneckInputs& facts) {
  constexpr const char* kKey = "trainer.num_threads";
  const BottleneckContext& context = facts.context;
  if (context.on_gpu) return done(kKey, "the GPU does the computing");
  if (context.cores() == 1) return done(kKey, "there is one core");
  if (context.other_threads && context.replay_step_s) {
    const auto threads = static_cast<int>(context.other_threads->value);
    return done(kKey, fmt::format("{} thread{}", threads, plural(threads)),
                of_threads(facts, threads));
  }
  return context.levers.threads_probed
             ? done(kKey, "auto compared several numbers of threads at the start")
             : not_done(kKey);
}

SettingCheck check_of_precision(const BottleneckInputs& facts) {
  constexpr const char* kKey = "trainer.precision";
  const BottleneckContext& context = facts.context;
  const std::string& precision = context.levers.precision;
  if (!precision.empty() && precision != "32-true")
    return done(kKey, "precision is already 16-bit");
  if (!context.on_gpu && !context.levers.native_bf16)
    return done(kKey, "this CPU has no bf16 instructions");
  if (!context.bf16_step_s || !context.replay_step_s) return not_done(kKey);
  return done(kKey, "precision bf16-mixed", of_bf16(facts));
}

SettingCheck check_of_anomaly(const BottleneckInputs& facts) {
  constexpr const char* kKey = "trainer.detect_anomaly";
  if (!facts.context.levers.detect_anomaly) return done(kKey, "anomaly checks are off");
  return done(kKey, "no anomaly checks", of_no_anomaly_checks(facts));
}

}  // namespace

Gain unknown() { return {}; }

Gain without(const BottleneckInputs& facts, double seconds) {
  const double wall_s = facts.timing.wall_s;
  return {.low = 1, .high = wall_s / std::max(wall_s - seconds, 1e-3 * wall_s)};
}

Gain of_loading(const BottleneckInputs& facts) {
  const events::Timing& timing = facts.timing;
  const BottleneckContext& context = facts.context;
  const bool shares_cores = !context.on_gpu && context.num_workers > 0;
  double won_s = timing.data_wait_s;
  if (context.ranks_wait_s) won_s = timing.data_wait_s + timing.allreduce_exposed_s;
  if (shares_cores && cores_are_contended(facts)) {
    if (!context.replay_step_s || context.levers.detect_anomaly) return unknown();
    const double least_s = facts.batches() * *context.replay_step_s * (1 - kReplayMargin);
    const double shorter = std::min(least_s / std::max(passes_s(facts.timing), 1e-9), 1.0);
    // Everything that computes in the step may be slowed down as much as the passes.
    won_s += computing_s(timing) * (1 - shorter);
  }
  return without(facts, won_s + timing.eval_s);
}

Gain of_larger_batch(const BottleneckInputs& facts, double factor) {
  const BottleneckContext& context = facts.context;
  if (!context.larger_batch) return {.low = 1, .high = factor};
  const auto rows = static_cast<double>(context.larger_batch->value);
  const auto ratio = ratio_of(facts, context.larger_batch->step_s);
  if (!ratio || context.batch_size <= 0) return {.low = 1, .high = factor};
  const double tried = rows / static_cast<double>(context.batch_size);
  // A step takes a fixed time plus a time per row, so the step time is linear between the two
  // batches.
  const double per_row = (*ratio - 1) / (tried - 1);
  const double step = 1 + per_row * (factor - 1);
  const double share = std::clamp(step / factor, 1 / factor, 2.0);
  const double passes = passes_s(facts.timing);
  const double rest_s = facts.timing.wall_s - passes;
  const double least_s = passes * share * (1 - kReplayMargin) + rest_s / factor;
  return replayed(facts, share, std::min(facts.timing.wall_s / least_s, factor));
}

Gain of_threads(const BottleneckInputs& facts, int threads) {
  const BottleneckContext& context = facts.context;
  if (context.other_threads && context.other_threads->value == threads) {
    if (const auto ratio = ratio_of(facts, context.other_threads->step_s)) {
      const double most = std::max(1 / (*ratio * (1 - kReplayMargin)), 1.0);
      return replayed(facts, *ratio, most);
    }
  }
  if (context.num_threads < 1 || threads <= context.num_threads) return unknown();
  return {.low = 1, .high = static_cast<double>(threads) / context.num_threads};
}

Gain of_no_anomaly_checks(const BottleneckInputs& facts) {
  const auto& step_s = facts.context.replay_step_s;
  if (!step_s || !(passes_s(facts.timing) > 0)) return unknown();
  const double ratio = facts.batches() * *step_s / passes_s(facts.timing);
  // Metrics and the update are checked as well.
  const double most = std::max(1 / std::max(ratio * (1 - kReplayMargin), 1e-3), 1.0);
  return replayed(facts, ratio, most);
}

Gain of_bf16(const BottleneckInputs& facts) {
  const auto& step_s = facts.context.bf16_step_s;
  const auto ratio = step_s ? ratio_of(facts, *step_s) : std::nullopt;
  if (!ratio) {
    const events::Timing& timing = facts.timing;
    return without(facts, passes_s(facts.timing) + timing.eval_s + timing.h2d_s);
  }
  return replayed(facts, *ratio, std::max(1 / (*ratio * (1 - kReplayMargin)), 1.0));
}

Gain of_fewer_checkpoints(const BottleneckInputs& facts) {
  const bool is_async = facts.context.levers.checkpoint_async && !facts.context.on_gpu;
  if (is_async && cores_are_contended(facts)) return unknown();
  return without(facts, facts.timing.checkpoint_s);
}

Gain of_less_validation(const BottleneckInputs& facts) {
  // After a validation the loader starts the epoch without prefetched batches.
  return without(facts, facts.timing.eval_s + facts.timing.data_wait_s);
}

std::vector<SettingCheck> checks_of(const BottleneckInputs& facts) {
  return {check_of_batch(facts), check_of_threads(facts), check_of_precision(facts),
          check_of_anomaly(facts)};
}

int batch_factor(const BottleneckInputs& facts) {
  const BottleneckContext& context = facts.context;
  const auto fits = [&](std::int64_t factor, std::int64_t steps) {
    return context.batch_size > 0 &&
           factor * context.batch_size * context.world_size * steps <= context.train_samples;
  };
  if (const auto& tried = context.larger_batch; tried && context.batch_size > 0) {
    for (std::int64_t factor = tried->value / context.batch_size; factor > 2; factor /= 2) {
      if (fits(factor, kFewestSteps)) return static_cast<int>(factor);
    }
  } else if (has_tiny_steps(facts) && fits(8, kFewestSteps)) {
    return 8;
  }
  return fits(2, 1) ? 2 : 0;
}

bool has_tiny_steps(const BottleneckInputs& facts) {
  const events::Timing& timing = facts.timing;
  const double batches = facts.batches();
  if (!(batches >= 1) || facts.context.batch_size <= 0) return false;
  const double step_s = (timing.training_s() - timing.data_wait_s) / batches;
  return step_s < kTinyStep || facts.context.batch_size < kTinyBatch;
}

}  // namespace gains

std::string text_of(const Gain& gain) {
  if (!gain.high && !gain.replayed && gain.low <= 1.005) return "unknown until it is tried";
  if (!gain.high) return fmt::format("at least {:.2f}x as fast as now", gain.low);
  if (!gain.replayed) return fmt::format("at most {:.2f}x as fast as now", *gain.high);
  return fmt::format("{:.2f}x to {:.2f}x as fast as now, estimated from a short test on one batch",
                     gain.low, *gain.high);
}

}  // namespace trainctl::report
