#include "report/diagnosis/bottleneck_symptoms.hpp"

#include "base/machine/core_use.hpp"
#include "report/diagnosis/bottleneck_gains.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

namespace trainctl::report {
namespace {

constexpr double kShort = 0.25;         // cores or quota, of the time or the periods
constexpr double kSwitches = 100;       // a second
constexpr double kMemoryStalls = 0.10;  // of the time
constexpr double kMajorFaults = 100;    // a second
constexpr double kMemoryFull = 0.90;    // of the limit
constexpr double kDiskStalls = 0.20;    // of the time
constexpr double kDiskLeavesCores = 0.7;
constexpr double kReads = 0.5;    // MB/s of this process: else another one waits for the disk
constexpr double kPages = 10;     // a second, of files that are mapped
constexpr double kAsleep = 0.35;  // of the cores that could load
constexpr double kAllBusy = 0.8;  // of the cores
constexpr double kMost = 0.5;     // of a rank's time beyond the median
constexpr double kLittleOverlap = 0.3;
constexpr double kLargeExchange = 4e6;   // bytes of a step
constexpr std::int64_t kRareLines = 10;  // steps between two lines of the log
constexpr double kBusyLoader = 0.25;     // of the cores
constexpr double kShortestUsage = 0.5;   // seconds that shares of the cores are of
constexpr double kIdleCore = 0.75;       // of a core

bool is_work(Limit part) {
  constexpr std::array kWork{Limit::compute, Limit::optimizer, Limit::host, Limit::balanced,
                             Limit::communication};
  return std::ranges::find(kWork, part) != kWork.end();
}

/// Work of this rank; waits for others are none.
bool is_own_work(Limit part) { return is_work(part) && part != Limit::communication; }

bool is_compute(Limit part) { return part == Limit::compute || part == Limit::balanced; }

bool at_least(const std::optional<double>& value, double bound) { return value && *value >= bound; }

/// Whether the run leaves a core to others, and these leave it idle as far as the kernel reports
/// it.
bool has_idle_core(const Facts& facts) {
  const BottleneckContext& context = facts.context;
  const double cores = context.cores();
  const bool leaves_one =
      facts.timing.cpu_percent > 0 && facts.timing.cpu_percent / 100 <= cores - kIdleCore;
  const auto idle = context.usage ? context.usage->idle_cores : std::nullopt;
  return leaves_one && (!idle || *idle * cores >= kIdleCore);
}

}  // namespace

double Facts::samples() const {
  const auto whole = static_cast<double>(timing.samples);
  const double training_s = timing.wall_s - timing.eval_s - timing.checkpoint_s;
  if (!(timing.samples_per_s > 0) || !(training_s > 0)) return whole;
  return std::min(std::round(timing.samples_per_s * training_s), whole);
}

double Facts::batches() const {
  const auto rows = static_cast<double>(context.batch_size) * context.world_size;
  return rows > 0 ? samples() / rows : 0;
}

std::optional<double> Facts::cpu_use() const {
  if (!context.usage || !(timing.cpu_percent > 0)) return std::nullopt;
  const int cores = std::max(context.cores(), 1);
  const int threads = std::clamp(context.num_workers, 1, cores);
  return timing.cpu_percent / 100 / threads;
}

bool Facts::cores_are_short() const {
  if (!context.usage) return false;
  return at_least(context.usage->cpu_stalled, kShort) ||
         at_least(context.usage->throttled, kShort) ||
         context.usage->involuntary_switches_s >= kSwitches;
}

double taken_cores(const events::Usage& usage) {
  if (!usage.outside_cores || usage.span_s < kShortestUsage) return 0;
  const CoreUse use{*usage.outside_cores, usage.stolen_cores.value_or(0),
                    usage.idle_cores.value_or(1), usage.core_wait};
  return is_contended(use) ? use.outside + use.stolen : 0;
}

namespace symptoms {

bool always(const Facts& /*facts*/) { return true; }

bool others_take_cores(const Facts& facts) {
  const auto& usage = facts.context.usage;
  if (!usage || !(taken_cores(*usage) > 0)) return false;
  // Threads that wait for one another wait whoever else computes, but for what the host withholds.
  const bool waits_for_itself = threads_exceed_cores(facts) || workers_exceed_cores(facts);
  return !waits_for_itself || at_least(usage->stolen_cores, kNotableOutsideShare);
}

bool other_threads_gain(const Facts& facts) {
  const BottleneckContext& context = facts.context;
  if (context.on_gpu || !is_own_work(facts.part) || context.num_threads < 1) return false;
  if (context.other_threads && context.replay_step_s) {
    const auto threads = static_cast<int>(context.other_threads->value);
    return gains::of_threads(facts, threads).low >= gains::kWorthProposing;
  }
  const bool is_below = context.num_threads < context.cores() && !context.levers.threads_probed;
  return is_below && has_idle_core(facts) && !gains::has_tiny_steps(facts);
}

bool larger_batch_gains(const Facts& facts) {
  if (facts.context.on_gpu || !is_compute(facts.part)) return false;
  const int factor = gains::batch_factor(facts);
  if (factor == 0) return false;
  const Gain gain = gains::of_larger_batch(facts, factor);
  return gain.replayed ? gain.low >= gains::kWorthLargerBatch : gains::has_tiny_steps(facts);
}

bool bf16_gains(const Facts& facts) {
  return !facts.context.on_gpu && is_compute(facts.part) && facts.context.bf16_step_s &&
         gains::of_bf16(facts).low >= gains::kWorthProposing;
}

bool memory_is_short(const Facts& facts) {
  const auto& usage = facts.context.usage;
  if (!usage) return false;
  const bool pages = usage->major_faults_s >= kMajorFaults;
  return at_least(usage->memory_stalled, kMemoryStalls) ||
         (pages && at_least(usage->memory_taken, kMemoryFull));
}

bool threads_exceed_cores(const Facts& facts) {
  const BottleneckContext& context = facts.context;
  const bool more = context.cores() > 0 && context.num_threads > context.cores();
  return !context.on_gpu && more && is_work(facts.part) && facts.cores_are_short();
}

bool workers_exceed_cores(const Facts& facts) {
  const BottleneckContext& context = facts.context;
  if (!context.usage || context.num_workers <= context.cores() || context.on_gpu) return false;
  const double busy = context.usage->loader_cores.value_or(0);
  return is_work(facts.part) && busy >= kBusyLoader * context.cores() && facts.cores_are_short();
}

bool quota_is_short(const Facts& facts) {
  return facts.context.usage && at_least(facts.context.usage->throttled, kShort);
}

bool threads_spin(const Facts& facts) {
  const BottleneckContext& context = facts.context;
  const bool spins = !context.levers.spin_variable.empty() && context.num_threads > 1;
  if (!spins || context.on_gpu || !context.usage || !context.usage->loader_cores) return false;
  const int cores = context.cores();
  const double busy = facts.timing.cpu_percent / 100;
  return cores > 0 && busy >= kAllBusy * cores &&
         busy - *context.usage->loader_cores >= kShort * cores;
}

bool disk_is_slow(const Facts& facts) {
  const auto use = facts.cpu_use();
  if (!use || *use >= kDiskLeavesCores) return false;
  const bool reads =
      facts.timing.read_mb_s >= kReads || facts.context.usage->major_faults_s >= kPages;
  return reads && at_least(facts.context.usage->io_stalled, kDiskStalls);
}

bool source_sleeps(const Facts& facts) {
  const auto use = facts.cpu_use();
  return use && *use < kAsleep && !at_least(facts.context.usage->cpu_stalled, kShort);
}

bool has_no_workers(const Facts& facts) { return facts.context.num_workers == 0; }

bool has_few_workers(const Facts& facts) {
  const int cores = facts.context.cores();
  return cores <= 0 || facts.context.num_workers < cores;
}

bool may_pin(const Facts& facts) {
  return facts.context.on_gpu && facts.context.levers.pin_memory != std::optional(true);
}

bool straggler_loads(const Facts& facts) {
  const auto& last = facts.context.straggler;
  if (!last) return false;
  const double beyond_s = last->own_s() - last->own_s() / (1 + last->behind);
  return last->wait_beyond_s > 0 && last->wait_beyond_s >= kMost * beyond_s;
}

bool has_straggler(const Facts& facts) { return facts.context.straggler.has_value(); }

bool exchanges_late(const Facts& facts) {
  double bytes = 0;
  for (const std::int64_t each : facts.context.bucket_bytes) bytes += static_cast<double>(each);
  const auto& overlap = facts.context.overlap;
  return overlap && *overlap < kLittleOverlap && facts.context.bucket_bytes.size() == 1 &&
         bytes >= kLargeExchange;
}

bool saves_in_the_step(const Facts& facts) { return !facts.context.levers.checkpoint_async; }

bool syncs_each_step(const Facts& facts) {
  const Levers& levers = facts.context.levers;
  return facts.context.on_gpu && (levers.detect_anomaly || levers.log_every_steps < kRareLines);
}

bool launches_each_kernel(const Facts& facts) {
  return facts.context.on_gpu && facts.context.levers.cuda_graphs == std::optional(false);
}

bool gpu_is_throttled(const Facts& facts) {
  return facts.context.usage && !facts.context.usage->gpu_throttle.empty();
}

/// On a GPU the checks show as the host's time: see syncs_each_step.
bool looks_for_anomalies(const Facts& facts) {
  const bool by_host = facts.context.on_gpu && facts.part == Limit::host;
  return facts.context.levers.detect_anomaly && is_work(facts.part) && !by_host;
}

bool computes_in_full(const Facts& facts) {
  return facts.context.on_gpu && facts.context.levers.precision == "32-true";
}

bool is_on_gpu(const Facts& facts) { return facts.context.on_gpu; }

}  // namespace symptoms
}  // namespace trainctl::report
