#include "report/diagnosis/bottleneck_rules.hpp"

#include "report/diagnosis/bottleneck_fixes.hpp"
#include "report/diagnosis/bottleneck_symptoms.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace trainctl::report {
namespace {

using enum Limit;

// The machine first: what it lacks shows as another part's time. Then settings that slow down
// whatever part takes the time.
constexpr std::array kMachine{
    Rule{"cores_taken", std::nullopt, machine,
         "processes outside of the run take 10 % of the cores while the run's threads wait for one "
         "10 % of the time, though not for one another (threads_oversubscribed, "
         "workers_oversubscribed), or the host withholds 10 % of their time (steal time)",
         "other processes take the cores of the run, and every time is measured too long",
         "free the cores and run again", "", symptoms::others_take_cores, fixes::free_cores,
         Next::run_again},
    Rule{"memory_pressure", std::nullopt, std::nullopt,
         "threads wait for memory 10 % of the time, or 100 pages a second come back from the disk "
         "with 90 % of the memory taken",
         "memory is short: pages are thrown out and read again", "smaller caches, or more memory",
         "dataset.cache.budget", symptoms::memory_is_short, fixes::less_cache, Next::doctor},
    Rule{"anomaly_checks", std::nullopt, std::nullopt,
         "trainer.detect_anomaly is true, and work takes the time",
         "every value of every operation is checked", "off, once the cause is found",
         "trainer.detect_anomaly", symptoms::looks_for_anomalies, fixes::no_anomaly_checks},
    Rule{"threads_oversubscribed", std::nullopt, host,
         "on a CPU, more threads than cores, and threads that wait for a core or lose theirs",
         "the threads of the step take the cores from one another", "as many threads as cores",
         "trainer.num_threads", symptoms::threads_exceed_cores, fixes::fewer_threads},
    Rule{"workers_oversubscribed", std::nullopt, host,
         "on a CPU, more loader workers than cores, which keep a quarter of them busy, while the "
         "step waits for no batch",
         "the loader takes the cores from the step", "fewer workers", "loader.num_workers",
         symptoms::workers_exceed_cores, fixes::fewer_workers},
    Rule{"cpu_throttled", std::nullopt, host,
         "the CPU quota of the control group is used up in 25 % of its periods",
         "the control group stops the process",
         "as many threads as the quota has cores, or a larger quota", "trainer.num_threads",
         symptoms::quota_is_short, fixes::fewer_threads, Next::doctor},
    Rule{"few_threads", std::nullopt, std::nullopt,
         "on a CPU, work takes the time, and a replayed step gains 15 % with another number of "
         "threads; without a replay: trainer.num_threads is below the cores, of which one is idle",
         "the step does not use the cores that it has", "as many threads as gain",
         "trainer.num_threads", symptoms::other_threads_gain, fixes::other_threads},
    Rule{"small_batch", std::nullopt, std::nullopt,
         "on a CPU, forward and backward or nothing stands out, and a replayed batch of 2, 4 or 8 "
         "times the rows gains 30 %; without a replay: a step takes less than a millisecond, or a "
         "batch has fewer than 8 rows",
         "the fixed cost of a step is spread over few samples", "a larger batch",
         "loader.batch_size", symptoms::larger_batch_gains, fixes::larger_steps},
    Rule{"bf16_unused", std::nullopt, std::nullopt,
         "on a CPU, forward and backward or nothing stands out, and a step replayed in bf16 gains "
         "15 %",
         "products in 32 bits leave instructions of the CPU unused", "16-bit products",
         "trainer.precision", symptoms::bf16_gains, fixes::half_precision},
};

constexpr std::array kInput{
    Rule{"spinning_threads", input, std::nullopt,
         "on a CPU, a variable of the environment keeps idle threads of the step awake, and all "
         "cores are busy, a quarter of them not with loading",
         "threads that wait for the next step take the cores from the loader",
         "let them sleep (unset the variable), or one thread", "trainer.num_threads",
         symptoms::threads_spin, fixes::one_thread},
    Rule{"slow_disk", input, std::nullopt,
         "the run reads from a disk, threads wait for it 20 % of the time, and cores are left",
         "the disk is slower than the step", "keep the files in memory, or read ahead",
         "dataset.cache.mode, loader.read_ahead", symptoms::disk_is_slow, fixes::read_less,
         Next::doctor},
    Rule{"slow_source", input, std::nullopt, "neither a core nor a disk is busy",
         "the loader waits for something else: a remote store, a lock, a plug-in",
         "more workers than cores, whose waits overlap", "loader.num_workers",
         symptoms::source_sleeps, fixes::waiting_workers},
    Rule{"no_workers", input, std::nullopt, "loader.num_workers is 0",
         "the training thread makes its batches itself", "loader threads", "loader.num_workers",
         symptoms::has_no_workers, fixes::more_workers},
    Rule{"few_workers", input, std::nullopt, "the workers are busy, and fewer than the cores",
         "samples take longer to make than the step to use them", "more workers",
         "loader.num_workers", symptoms::has_few_workers, fixes::more_workers},
    Rule{"slow_decode", input, std::nullopt, "as many workers as cores, all busy",
         "decoding and transforms take all cores", "keep decoded samples, or make them cheaper",
         "dataset.cache.mode", symptoms::always, fixes::cache_decoded},
};

constexpr std::array kWaits{
    Rule{"unpinned_memory", transfer, std::nullopt, "on a GPU, without page-locked memory",
         "copies from pageable memory hold the step up", "page-locked memory", "loader.pin_memory",
         symptoms::may_pin, fixes::pin},
    Rule{"large_copies", transfer, std::nullopt, "",
         "copying and widening the batches takes the time", "keep the images on the GPU",
         "dataset.cache.mode", symptoms::always, fixes::keep_on_device},
    Rule{"slow_loading_rank", communication, std::nullopt,
         "one rank is more than 10 % beyond the median, and most of that is its wait for batches",
         "the others wait for one rank, and that one for its loader", "more workers",
         "loader.num_workers", symptoms::straggler_loads, fixes::workers_of_straggler},
    Rule{"slow_rank", communication, std::nullopt,
         "one rank's own work is more than 10 % beyond the median", "the others wait for one rank",
         "look at that machine: its load, clocks and disk", "", symptoms::has_straggler,
         fixes::inspect_rank, Next::doctor},
    Rule{"late_exchange", communication, std::nullopt,
         "all gradients, 4 MB or more, go in one bucket, and less than 30 % of the exchange runs "
         "beside the backward pass",
         "the exchange begins when the backward pass is over", "smaller buckets",
         "distributed.bucket_cap_mb", symptoms::exchanges_late, fixes::smaller_buckets},
    Rule{"slow_link", communication, std::nullopt, "",
         "the exchange of the gradients takes longer than the backward pass hides",
         "fewer exchanges per sample", "loader.batch_size", symptoms::always, fixes::exchange_less},
    Rule{"saved_in_the_step", checkpoint, std::nullopt, "checkpoint.async is false",
         "the step waits until a checkpoint is on the disk", "write beside the training",
         "checkpoint.async", symptoms::saves_in_the_step, fixes::save_beside},
    Rule{"saved_too_often", checkpoint, std::nullopt, "", "checkpoints are saved too often",
         "fewer checkpoints",
         "checkpoint.every_n_steps, checkpoint.every_t, checkpoint.every_n_epochs, "
         "checkpoint.on_best",
         symptoms::always, fixes::save_less},
};

constexpr std::array kWork{
    Rule{"validated_too_often", evaluation, std::nullopt, "",
         "validation takes a large part of each epoch", "validation less often",
         "trainer.check_val_every_n_epoch", symptoms::always, fixes::validate_less},
    Rule{"forced_sync", host, std::nullopt,
         "on a GPU, with trainer.detect_anomaly or a line of the log every few steps",
         "the host waits for the GPU, and the GPU then for the host", "look at values less often",
         "trainer.detect_anomaly, trainer.log_every_n_steps", symptoms::syncs_each_step,
         fixes::no_forced_sync},
    Rule{"many_launches", host, std::nullopt, "on a GPU, trainer.cuda_graphs is false",
         "the GPU waits for the host to launch its kernels", "launch a step as one graph",
         "trainer.cuda_graphs", symptoms::launches_each_kernel, fixes::record_steps},
    Rule{"small_steps", host, std::nullopt, "",
         "what a step costs beside its work is a large part of it", "fewer, larger steps",
         "loader.batch_size", symptoms::always, fixes::fewer_steps},
    Rule{"many_updates", optimizer, std::nullopt, "",
         "the update of the weights takes longer than what it is for", "fewer, larger steps",
         "loader.batch_size", symptoms::always, fixes::fewer_updates},
    Rule{"gpu_throttled", compute, std::nullopt, "the GPU lowers its clocks",
         "heat or the power limit slows the GPU down", "cooling, or a higher power limit", "",
         symptoms::gpu_is_throttled, fixes::cool_gpu, Next::doctor},
    Rule{"full_precision", compute, std::nullopt, "on a GPU, trainer.precision is 32-true",
         "products in 32 bits leave most of the GPU unused", "16-bit products", "trainer.precision",
         symptoms::computes_in_full, fixes::half_precision},
    Rule{"device_at_work", compute, std::nullopt, "on a GPU", "the device is at work",
         "a larger batch, while it fits; more devices", "loader.batch_size", symptoms::is_on_gpu,
         fixes::fill_device},
    Rule{"model_at_work", compute, std::nullopt, "", "the model itself is the work",
         "more devices, where a core is left for them; the settings that were not tried", "",
         symptoms::always, fixes::more_devices, Next::more_devices},
    Rule{"nothing_to_fix", balanced, std::nullopt, "", "no part stands out",
         "the settings that were not tried", "", symptoms::always, fixes::untried_settings},
};

std::vector<Rule> all_rules() {
  std::vector<Rule> all(kMachine.begin(), kMachine.end());
  all.insert(all.end(), kInput.begin(), kInput.end());
  all.insert(all.end(), kWaits.begin(), kWaits.end());
  all.insert(all.end(), kWork.begin(), kWork.end());
  return all;
}

}  // namespace

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
