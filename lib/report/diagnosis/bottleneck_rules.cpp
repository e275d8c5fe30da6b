#include "report/diagnosis/bottleneck_rules.hpp"

#include "base/machine/resource_usage.hpp"

namespace trainctl::report {
namespace {

constexpr double kShort = 0.25;    // fraction of the time or of the periods, for cores or quota
constexpr double kSwitches = 100;  // per second
constexpr double kMemoryStalls = 0.10;  // of the time
constexpr double kMajorFaults = 100;    // per second
constexpr double kMemoryFull = 0.90;    // of the limit
constexpr double kDiskStalls = 0.20;    // of the time
constexpr double kDiskLeavesCores = 0.7;
constexpr double kReads = 0.5;       // MB/s of this process; less: the disk serves others
constexpr double kPages = 10;        // per second, of mapped files
constexpr double kAsleep = 0.35;     // of the cores that could load
constexpr double kAllBusy = 0.8;     // of the cores
constexpr double kMostOfLead = 0.5;  // of a rank's time beyond the median
constexpr double kLittleOverlap = 0.3;
constexpr double kLargeExchange = 4e6;   // bytes per step
constexpr std::int64_t kRareLines = 10;  // steps between two log lines
constexpr double kBusyLoader = 0.25;     // of the cores
constexpr double kShortestUsage = 0.5;   // in seconds, for fractions of the cores
constexpr double kIdleCore = 0.75;       // of a core

bool is_work(BottleneckKind part) {
  constexpr std::array kWork{BottleneckKind::compute, BottleneckKind::optimizer,
                             BottleneckKind::host, BottleneckKind::balanced,
                             BottleneckKind::communication};
  return std::ranges::find(kWork, part) != kWork.end();
}

bool is_compute(BottleneckKind part) {
  return part == BottleneckKind::compute || part == BottleneckKind::balanced;
}

bool at_least(const std::optional<double>& value, double bound) { return value && *value >= bound; }

/// Returns whether the run and, as far as the kernel reports it, other processes leave a core idle.
bool has_idle_core(const BottleneckInputs& facts) {
  const BottleneckContext& context = facts.context;
  const double cores = context.cores();
  const bool leaves_one =
      facts.timing.cpu_percent > 0 && facts.timing.cpu_percent / 100 <= cores - kIdleCore;
  const auto idle = context.usage ? context.usage->idle_cores : std::nullopt;
  return leaves_one && (!idle || *idle * cores >= kIdleCore);
}

}  // namespace

double BottleneckInputs::samples() const {
  const auto whole = static_cast<double>(timing.samples);
  const double training_s = timing.training_s();
  if (!(timing.samples_per_s > 0) || !(training_s > 0)) return whole;
  return std::min(std::round(timing.samples_per_s * training_s), whole);
}

double BottleneckInputs::batches() const {
  const auto rows = static_cast<double>(context.batch_size) * context.world_size;
  return rows > 0 ? samples() / rows : 0;
}

std::optional<double> BottleneckInputs::cpu_use() const {
  if (!context.usage || !(timing.cpu_percent > 0)) return std::nullopt;
  const int cores = std::max(context.cores(), 1);
  const int threads = std::clamp(context.num_workers, 1, cores);
  return timing.cpu_percent / 100 / threads;
}

bool BottleneckInputs::cores_are_short() const {
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

// Compares the measurements with the limits of the rules. A symptom does not hold if its values
// were not reported.
namespace {
namespace symptoms {

bool other_threads_gain(const BottleneckInputs& facts) {
  const BottleneckContext& context = facts.context;
  const bool is_own_work = is_work(facts.part) && facts.part != BottleneckKind::communication;
  if (context.on_gpu || !is_own_work || context.num_threads < 1) return false;
  if (context.other_threads && context.replay_step_s) {
    const auto threads = static_cast<int>(context.other_threads->value);
    return gains::of_threads(facts, threads).low >= gains::kWorthProposing;
  }
  const bool is_below = context.num_threads < context.cores() && !context.levers.threads_probed;
  return is_below && has_idle_core(facts) && !gains::has_tiny_steps(facts);
}

bool larger_batch_gains(const BottleneckInputs& facts) {
  if (facts.context.on_gpu || !is_compute(facts.part)) return false;
  const int factor = gains::batch_factor(facts);
  if (factor == 0) return false;
  const Gain gain = gains::of_larger_batch(facts, factor);
  return gain.replayed ? gain.low >= gains::kWorthLargerBatch : gains::has_tiny_steps(facts);
}

bool bf16_gains(const BottleneckInputs& facts) {
  return !facts.context.on_gpu && is_compute(facts.part) && facts.context.bf16_step_s &&
         gains::of_bf16(facts).low >= gains::kWorthProposing;
}

bool memory_is_short(const BottleneckInputs& facts) {
  const auto& usage = facts.context.usage;
  if (!usage) return false;
  const bool pages = usage->major_faults_s >= kMajorFaults;
  return at_least(usage->memory_stalled, kMemoryStalls) ||
         (pages && at_least(usage->memory_taken, kMemoryFull));
}

bool threads_exceed_cores(const BottleneckInputs& facts) {
  const BottleneckContext& context = facts.context;
  const bool more = context.cores() > 0 && context.num_threads > context.cores();
  return !context.on_gpu && more && is_work(facts.part) && facts.cores_are_short();
}

bool workers_exceed_cores(const BottleneckInputs& facts) {
  const BottleneckContext& context = facts.context;
  if (!context.usage || context.num_workers <= context.cores() || context.on_gpu) return false;
  const double busy = context.usage->loader_cores.value_or(0);
  return is_work(facts.part) && busy >= kBusyLoader * context.cores() && facts.cores_are_short();
}

bool others_take_cores(const BottleneckInputs& facts) {
  const auto& usage = facts.context.usage;
  if (!usage || !(taken_cores(*usage) > 0)) return false;
  // Such threads wait for each other even without other processes, unless the host withholds cores.
  const bool waits_for_itself = threads_exceed_cores(facts) || workers_exceed_cores(facts);
  return !waits_for_itself || at_least(usage->stolen_cores, kNotableOutsideShare);
}

bool quota_is_short(const BottleneckInputs& facts) {
  return facts.context.usage && at_least(facts.context.usage->throttled, kShort);
}

bool threads_spin(const BottleneckInputs& facts) {
  const BottleneckContext& context = facts.context;
  const bool spins = !context.levers.spin_variable.empty() && context.num_threads > 1;
  if (!spins || context.on_gpu || !context.usage || !context.usage->loader_cores) return false;
  const int cores = context.cores();
  const double busy = facts.timing.cpu_percent / 100;
  return cores > 0 && busy >= kAllBusy * cores &&
         busy - *context.usage->loader_cores >= kShort * cores;
}

bool disk_is_slow(const BottleneckInputs& facts) {
  const auto use = facts.cpu_use();
  if (!use || *use >= kDiskLeavesCores) return false;
  const bool reads =
      facts.timing.read_mb_s >= kReads || facts.context.usage->major_faults_s >= kPages;
  return reads && at_least(facts.context.usage->io_stalled, kDiskStalls);
}

bool source_sleeps(const BottleneckInputs& facts) {
  const auto use = facts.cpu_use();
  return use && *use < kAsleep && !at_least(facts.context.usage->cpu_stalled, kShort);
}

bool has_no_workers(const BottleneckInputs& facts) { return facts.context.num_workers == 0; }

bool has_few_workers(const BottleneckInputs& facts) {
  const int cores = facts.context.cores();
  return cores <= 0 || facts.context.num_workers < cores;
}

bool may_pin(const BottleneckInputs& facts) {
  return facts.context.on_gpu && facts.context.levers.pin_memory != std::optional(true);
}

bool straggler_loads(const BottleneckInputs& facts) {
  const auto& last = facts.context.straggler;
  if (!last) return false;
  const double beyond_s = last->own_s() - last->own_s() / (1 + last->slowdown);
  return last->wait_beyond_s > 0 && last->wait_beyond_s >= kMostOfLead * beyond_s;
}

bool has_straggler(const BottleneckInputs& facts) { return facts.context.straggler.has_value(); }

bool exchanges_late(const BottleneckInputs& facts) {
  double bytes = 0;
  for (const std::int64_t each : facts.context.bucket_bytes) bytes += static_cast<double>(each);
  const auto& overlap = facts.context.overlap;
  return overlap && *overlap < kLittleOverlap && facts.context.bucket_bytes.size() == 1 &&
         bytes >= kLargeExchange;
}

bool saves_in_the_step(const BottleneckInputs& facts) {
  return !facts.context.levers.checkpoint_async;
}

bool syncs_each_step(const BottleneckInputs& facts) {
  const AdviceSettings& levers = facts.context.levers;
  return facts.context.on_gpu && (levers.detect_anomaly || levers.log_every_steps < kRareLines);
}

bool launches_each_kernel(const BottleneckInputs& facts) {
  return facts.context.on_gpu && facts.context.levers.cuda_graphs == std::optional(false);
}

bool gpu_is_throttled(const BottleneckInputs& facts) {
  return facts.context.usage && !facts.context.usage->gpu_throttle.empty();
}

/// On a GPU the checks appear as host time, see syncs_each_step.
bool looks_for_anomalies(const BottleneckInputs& facts) {
  const bool by_host = facts.context.on_gpu && facts.part == BottleneckKind::host;
  return facts.context.levers.detect_anomaly && is_work(facts.part) && !by_host;
}

bool computes_in_full(const BottleneckInputs& facts) {
  return facts.context.on_gpu && facts.context.levers.precision == "32-true";
}

bool is_on_gpu(const BottleneckInputs& facts) { return facts.context.on_gpu; }

}  // namespace symptoms

using enum BottleneckKind;

// The rules about the machine come first, because its limits appear as time of other parts. Then
// come settings that slow down any part.
constexpr std::array kRules{
    Rule{"cores_taken", std::nullopt,
         "either processes outside of the run use 10 % of the cores, the run's threads wait for a "
         "core 10 % of the time, and neither threads_oversubscribed nor workers_oversubscribed "
         "applies; or the steal time of the virtual machine is 10 % of the CPU time",
         "other processes use the run's CPU cores, so all measured times are too long",
         "free the cores and run again", "", symptoms::others_take_cores, fixes::free_cores,
         Next::run_again, machine},
    Rule{"memory_pressure", std::nullopt,
         "threads wait for memory 10 % of the time; or 100 pages per second are read back from the "
         "disk while 90 % of the memory is in use",
         "memory is short: pages are evicted and read from disk again",
         "smaller caches, or more memory", "dataset.cache.budget", symptoms::memory_is_short,
         fixes::less_cache, Next::doctor},
    Rule{"anomaly_checks", std::nullopt,
         "trainer.detect_anomaly is true, and work takes the largest part of the time",
         "anomaly detection checks every value of every operation",
         "turn anomaly detection off once the anomaly is explained", "trainer.detect_anomaly",
         symptoms::looks_for_anomalies, fixes::no_anomaly_checks},
    Rule{"threads_oversubscribed", std::nullopt,
         "the run is on a CPU and has more threads than cores, and threads wait for a core or are "
         "preempted",
         "there are more compute threads than cores, so they compete for CPU time",
         "as many threads as cores", "trainer.num_threads", symptoms::threads_exceed_cores,
         fixes::fewer_threads, Next::tune, host},
    Rule{"workers_oversubscribed", std::nullopt,
         "the run is on a CPU and has more loader workers than cores, loading uses a quarter of "
         "the cores, and work takes the largest part of the time",
         "loader workers compete with the training step for CPU cores", "fewer workers",
         "loader.num_workers", symptoms::workers_exceed_cores, fixes::fewer_workers, Next::tune,
         host},
    Rule{"cpu_throttled", std::nullopt,
         "the CPU quota of the control group is used up in 25 % of its periods",
         "the CPU quota of the control group throttles the process",
         "as many threads as the quota has cores, or a larger quota", "trainer.num_threads",
         symptoms::quota_is_short, fixes::fewer_threads, Next::doctor, host},
    Rule{"few_threads", std::nullopt,
         "the run is on a CPU, work takes the largest part of the time, and a replayed step is 15 "
         "% faster with another "
         "number of threads; without a replay: trainer.num_threads is less than the number of "
         "cores, and a core is idle",
         "the training step leaves CPU cores idle", "the number of threads that is fastest",
         "trainer.num_threads", symptoms::other_threads_gain, fixes::other_threads},
    Rule{"small_batch", std::nullopt,
         "the run is on a CPU, forward and backward dominate or no part does, and a batch 2, 4 or "
         "8 times as "
         "large gains 30 % in a replay; without a replay: a step takes less than a millisecond, or "
         "a batch has fewer than 8 samples",
         "the fixed cost of a step is high for so few samples", "a larger batch",
         "loader.batch_size", symptoms::larger_batch_gains, fixes::larger_steps},
    Rule{"bf16_unused", std::nullopt,
         "the run is on a CPU, forward and backward dominate or no part does, and a step in bf16 "
         "gains 15 % "
         "in a replay",
         "fp32 matrix products do not use the bf16 instructions of the CPU", "bf16 mixed precision",
         "trainer.precision", symptoms::bf16_gains, fixes::half_precision},
    Rule{"spinning_threads", input,
         "the run is on a CPU, an environment variable makes idle compute threads spin, all cores "
         "are busy, "
         "and at least a quarter of the cores do not load data",
         "compute threads spin between steps and take CPU cores from the loader",
         "unset the variable so that they sleep, or use one thread", "trainer.num_threads",
         symptoms::threads_spin, fixes::one_thread},
    Rule{"slow_disk", input,
         "the run reads from a disk, threads wait for the disk 20 % of the time, and not all cores "
         "are busy",
         "the disk is slower than the training step", "keep the files in memory, or read ahead",
         "dataset.cache.mode, loader.read_ahead", symptoms::disk_is_slow, fixes::read_less,
         Next::doctor},
    Rule{"slow_source", input, "neither a core nor a disk is busy",
         "the loader waits for something else, such as remote storage, a lock or a plug-in",
         "more workers than cores, so that their waits overlap", "loader.num_workers",
         symptoms::source_sleeps, fixes::waiting_workers},
    Rule{"no_workers", input, "loader.num_workers is 0",
         "the training thread loads its batches itself", "loader workers", "loader.num_workers",
         symptoms::has_no_workers, fixes::more_workers},
    Rule{"few_workers", input, "there are fewer workers than cores",
         "loading a batch takes longer than training on it", "more workers", "loader.num_workers",
         symptoms::has_few_workers, fixes::more_workers},
    Rule{"slow_decode", input,
         "no other rule of this part applies: there are as many workers as cores, and all are busy",
         "decoding and transforms use all CPU cores",
         "cache decoded samples, or use cheaper transforms", "dataset.cache.mode", nullptr,
         fixes::cache_decoded},
    Rule{"unpinned_memory", transfer, "the run is on a GPU and does not use pinned memory",
         "copies from pageable memory block the training step", "pinned memory",
         "loader.pin_memory", symptoms::may_pin, fixes::pin},
    Rule{"large_copies", transfer, "", "copying and converting batches takes the time",
         "keep the images on the GPU", "dataset.cache.mode", nullptr, fixes::keep_on_device},
    Rule{"slow_loading_rank", communication,
         "one rank needs 10 % more time per step than the median rank, and most of the difference "
         "is its wait for batches",
         "all ranks wait for one rank, which waits for its loader", "more workers",
         "loader.num_workers", symptoms::straggler_loads, fixes::workers_of_straggler},
    Rule{"slow_rank", communication, "one rank needs 10 % more time per step than the median rank",
         "all ranks wait for one slow rank", "check the load, clocks and disk of that machine", "",
         symptoms::has_straggler, fixes::inspect_rank, Next::doctor},
    Rule{"late_exchange", communication,
         "all gradients, 4 MB or more, are in one bucket, and less than 30 % of the all-reduce "
         "overlaps the backward pass",
         "the all-reduce starts only after the backward pass", "smaller buckets",
         "distributed.bucket_cap_mb", symptoms::exchanges_late, fixes::smaller_buckets},
    Rule{"slow_link", communication, "",
         "the gradient all-reduce takes longer than the backward pass can hide",
         "fewer all-reduces per sample", "loader.batch_size", nullptr, fixes::exchange_less},
    Rule{"saved_in_the_step", checkpoint, "checkpoint.async is false",
         "training waits until each checkpoint is on the disk", "write checkpoints asynchronously",
         "checkpoint.async", symptoms::saves_in_the_step, fixes::save_async},
    Rule{"saved_too_often", checkpoint, "", "checkpoints are saved too often", "fewer checkpoints",
         "checkpoint.every_n_steps, checkpoint.every_t, checkpoint.every_n_epochs, "
         "checkpoint.on_best",
         nullptr, fixes::save_less},
    Rule{"validated_too_often", evaluation, "", "validation takes a large part of each epoch",
         "validate less often", "trainer.check_val_every_n_epoch", nullptr, fixes::validate_less},
    Rule{"forced_sync", host,
         "the run is on a GPU, with trainer.detect_anomaly or with logging every few steps",
         "the host synchronizes with the GPU too often, so the GPU idles",
         "read values on the host less often", "trainer.detect_anomaly, trainer.log_every_n_steps",
         symptoms::syncs_each_step, fixes::no_forced_sync},
    Rule{"many_launches", host, "the run is on a GPU, and trainer.cuda_graphs is false",
         "the GPU waits for the host to launch its kernels", "capture the step as a CUDA graph",
         "trainer.cuda_graphs", symptoms::launches_each_kernel, fixes::record_steps},
    Rule{"small_steps", host, "",
         "overhead outside of forward, backward and optimizer takes a large part of each step",
         "fewer, larger steps", "loader.batch_size", nullptr, fixes::larger_steps},
    Rule{"many_updates", optimizer, "", "the optimizer step takes longer than forward and backward",
         "fewer, larger steps", "loader.batch_size", nullptr, fixes::fewer_updates},
    Rule{"gpu_throttled", compute, "the GPU lowers its clocks",
         "heat or the power limit lowers the clocks of the GPU", "cooling, or a higher power limit",
         "", symptoms::gpu_is_throttled, fixes::cool_gpu, Next::doctor},
    Rule{"full_precision", compute, "the run is on a GPU, and trainer.precision is 32-true",
         "fp32 matrix products leave most of the GPU's throughput unused", "bf16 mixed precision",
         "trainer.precision", symptoms::computes_in_full, fixes::half_precision},
    Rule{"device_at_work", compute, "the run is on a GPU",
         "forward and backward on the GPU take the time",
         "a larger batch, while it fits; more devices", "loader.batch_size", symptoms::is_on_gpu,
         fixes::fill_device},
    Rule{"model_at_work", compute, "", "forward and backward take the time",
         "more devices if CPU cores are free; otherwise try the settings that were not compared",
         "", nullptr, fixes::more_devices, Next::more_devices},
    Rule{"nothing_to_fix", balanced, "", "no part dominates",
         "try the settings that were not compared", "", nullptr, fixes::untried_settings},
};

}  // namespace

std::span<const Rule> rules() { return kRules; }

const Rule& rule_for(const BottleneckInputs& facts) {
  const auto found = std::ranges::find_if(kRules, [&](const Rule& rule) {
    return (!rule.part || *rule.part == facts.part) && (rule.holds == nullptr || rule.holds(facts));
  });
  return found == kRules.end() ? kRules.back() : *found;
}

}  // namespace trainctl::report
