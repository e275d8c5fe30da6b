#include "report/bottleneck_rules.hpp"

#include "report/bottleneck_fixes.hpp"

#include <algorithm>
#include <array>

namespace trainctl::report {
namespace {

constexpr double kShort = 0.25;          // cores or quota, of the time or the periods
constexpr double kSwitches = 100;        // a second
constexpr double kMemoryStalls = 0.10;   // of the time
constexpr double kMajorFaults = 100;     // a second
constexpr double kMemoryFull = 0.90;     // of the limit
constexpr double kDiskStalls = 0.20;     // of the time
constexpr double kDiskLeavesCores = 0.7;
constexpr double kReads = 0.5;           // MB/s of this process: else another one waits for the disk
constexpr double kPages = 10;            // a second, of files that are mapped
constexpr double kAsleep = 0.35;         // of the cores that could load
constexpr double kLittleOverlap = 0.3;
constexpr double kLargeExchange = 4e6;   // bytes of a step
constexpr std::int64_t kRareLines = 10;  // steps between two lines of the log
constexpr double kBusyLoader = 0.25;     // of the cores

bool always(const Facts& /*facts*/) { return true; }

bool is_work(Limit part) {
  constexpr std::array kWork{Limit::compute, Limit::optimizer, Limit::host, Limit::balanced,
                             Limit::communication};
  return std::ranges::find(kWork, part) != kWork.end();
}

bool at_least(const std::optional<double>& value, double bound) { return value && *value >= bound; }

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

bool disk_is_slow(const Facts& facts) {
  const auto use = facts.cpu_use();
  if (!use || *use >= kDiskLeavesCores) return false;
  const bool reads = facts.timing.read_mb_s >= kReads || facts.context.usage->major_faults_s >= kPages;
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

bool looks_for_anomalies(const Facts& facts) { return facts.context.levers.detect_anomaly; }

bool computes_in_full(const Facts& facts) {
  return facts.context.on_gpu && facts.context.levers.precision == "32-true";
}

bool is_on_gpu(const Facts& facts) { return facts.context.on_gpu; }

using enum Limit;

// The machine first: what it lacks shows as another part's time.
constexpr std::array kMachine{
    Rule{"memory_pressure", std::nullopt, std::nullopt,
         "threads wait for memory 10 % of the time, or 100 pages a second come back from the disk "
         "with 90 % of the memory taken",
         "memory is short: pages are thrown out and read again",
         "smaller caches, or more memory", "dataset.cache.budget", memory_is_short,
         fixes::less_cache},
    Rule{"threads_oversubscribed", std::nullopt, host,
         "on a CPU, more threads than cores, and threads that wait for a core or lose theirs",
         "the threads of the step take the cores from one another",
         "as many threads as cores", "trainer.num_threads", threads_exceed_cores,
         fixes::fewer_threads},
    Rule{"workers_oversubscribed", std::nullopt, host,
         "on a CPU, more loader workers than cores, which keep a quarter of them busy, while the "
         "step waits for no batch",
         "the loader takes the cores from the step", "fewer workers", "loader.num_workers",
         workers_exceed_cores, fixes::fewer_workers},
    Rule{"cpu_throttled", std::nullopt, host,
         "the CPU quota of the control group is used up in 25 % of its periods",
         "the control group stops the process",
         "as many threads as the quota has cores, or a larger quota", "trainer.num_threads",
         quota_is_short, fixes::fewer_threads},
};

constexpr std::array kInput{
    Rule{"slow_disk", input, std::nullopt,
         "the run reads from a disk, threads wait for it 20 % of the time, and cores are left",
         "the disk is slower than the step", "keep the files in memory, or read ahead",
         "dataset.cache.mode, loader.read_ahead", disk_is_slow, fixes::read_less},
    Rule{"slow_source", input, std::nullopt,
         "neither a core nor a disk is busy",
         "the loader waits for something else: a remote store, a lock, a plug-in",
         "more workers than cores, whose waits overlap", "loader.num_workers", source_sleeps,
         fixes::waiting_workers},
    Rule{"no_workers", input, std::nullopt, "loader.num_workers is 0",
         "the training thread makes its batches itself", "loader threads", "loader.num_workers",
         has_no_workers, fixes::more_workers},
    Rule{"few_workers", input, std::nullopt, "the workers are busy, and fewer than the cores",
         "samples take longer to make than the step to use them", "more workers",
         "loader.num_workers", has_few_workers, fixes::more_workers},
    Rule{"slow_decode", input, std::nullopt, "as many workers as cores, all busy",
         "decoding and transforms take all cores", "keep decoded samples, or make them cheaper",
         "dataset.cache.mode", always, fixes::cache_decoded},
};

constexpr std::array kWaits{
    Rule{"unpinned_memory", transfer, std::nullopt, "on a GPU, without page-locked memory",
         "copies from pageable memory hold the step up", "page-locked memory", "loader.pin_memory",
         may_pin, fixes::pin},
    Rule{"large_copies", transfer, std::nullopt, "",
         "copying and widening the batches takes the time", "keep the images on the GPU",
         "dataset.cache.mode", always, fixes::keep_on_device},
    Rule{"slow_rank", communication, std::nullopt,
         "one rank's own work is more than 10 % beyond the median", "the others wait for one rank",
         "look at that machine: its load, clocks and disk", "", has_straggler, fixes::none},
    Rule{"late_exchange", communication, std::nullopt,
         "all gradients, 4 MB or more, go in one bucket, and less than 30 % of the exchange runs "
         "beside the backward pass",
         "the exchange begins when the backward pass is over", "smaller buckets",
         "distributed.bucket_cap_mb", exchanges_late, fixes::smaller_buckets},
    Rule{"slow_link", communication, std::nullopt, "",
         "the exchange of the gradients takes longer than the backward pass hides",
         "fewer exchanges per sample", "loader.batch_size", always, fixes::exchange_less},
    Rule{"saved_in_the_step", checkpoint, std::nullopt, "checkpoint.async is false",
         "the step waits until a checkpoint is on the disk", "write beside the training",
         "checkpoint.async", saves_in_the_step, fixes::save_beside},
    Rule{"saved_too_often", checkpoint, std::nullopt, "", "checkpoints are saved too often",
         "fewer checkpoints",
         "checkpoint.every_n_steps, checkpoint.every_t, checkpoint.every_n_epochs, "
         "checkpoint.on_best",
         always, fixes::save_less},
};

constexpr std::array kWork{
    Rule{"validated_too_often", evaluation, std::nullopt, "",
         "validation takes a large part of each epoch", "validation less often",
         "trainer.check_val_every_n_epoch", always, fixes::validate_less},
    Rule{"forced_sync", host, std::nullopt,
         "on a GPU, with trainer.detect_anomaly or a line of the log every few steps",
         "the host waits for the GPU, and the GPU then for the host", "look at values less often",
         "trainer.detect_anomaly, trainer.log_every_n_steps", syncs_each_step,
         fixes::no_forced_sync},
    Rule{"many_launches", host, std::nullopt, "on a GPU, trainer.cuda_graphs is false",
         "the GPU waits for the host to launch its kernels", "launch a step as one graph",
         "trainer.cuda_graphs", launches_each_kernel, fixes::record_steps},
    Rule{"small_steps", host, std::nullopt, "",
         "what a step costs beside its work is a large part of it", "fewer, larger steps",
         "loader.batch_size", always, fixes::fewer_steps},
    Rule{"many_updates", optimizer, std::nullopt, "",
         "the update of the weights takes longer than what it is for", "fewer, larger steps",
         "loader.batch_size", always, fixes::fewer_updates},
    Rule{"gpu_throttled", compute, std::nullopt, "the GPU lowers its clocks",
         "heat or the power limit slows the GPU down", "cooling, or a higher power limit", "",
         gpu_is_throttled, fixes::none},
    Rule{"anomaly_checks", compute, std::nullopt, "trainer.detect_anomaly is true",
         "every value of every operation is looked at", "off, once the cause is found",
         "trainer.detect_anomaly", looks_for_anomalies, fixes::no_anomaly_checks},
    Rule{"full_precision", compute, std::nullopt, "on a GPU, trainer.precision is 32-true",
         "products in 32 bits leave most of the GPU unused", "16-bit products",
         "trainer.precision", computes_in_full, fixes::half_precision},
    Rule{"device_at_work", compute, std::nullopt, "on a GPU", "the device is at work",
         "a larger batch, while it fits; more devices", "loader.batch_size", is_on_gpu,
         fixes::fill_device},
    Rule{"model_at_work", compute, std::nullopt, "", "the model itself is the work",
         "more devices; other settings change little", "", always, fixes::more_devices},
    Rule{"nothing_to_fix", balanced, std::nullopt, "", "no part stands out", "", "", always,
         fixes::none},
};

std::vector<Rule> all_rules() {
  std::vector<Rule> all(kMachine.begin(), kMachine.end());
  all.insert(all.end(), kInput.begin(), kInput.end());
  all.insert(all.end(), kWaits.begin(), kWaits.end());
  all.insert(all.end(), kWork.begin(), kWork.end());
  return all;
}

}  // namespace

double Facts::batches() const {
  const auto rows = static_cast<double>(context.batch_size) * context.world_size;
  return rows > 0 ? static_cast<double>(timing.samples) / rows : 0;
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

std::span<const Rule> rules() {
  static const std::vector<Rule> all = all_rules();
  return all;
}

const Rule& rule_for(const Facts& facts) {
  const std::span<const Rule> all = rules();
  const auto found = std::ranges::find_if(all, [&](const Rule& rule) {
    return (!rule.part || *rule.part == facts.part) && rule.holds(facts);
  });
  return found == all.end() ? all.back() : *found;
}

}  // namespace trainctl::report
