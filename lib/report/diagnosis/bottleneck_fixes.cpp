#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "report/diagnosis/bottleneck_rules.hpp"
#include "report/text/format.hpp"

namespace trainctl::report::fixes {
namespace {

// Limits of the experiment file; a test compares them.
constexpr int kMostWorkers = 256;
constexpr std::int64_t kLargestBatch = std::int64_t{1} << 24;
constexpr double kStalled = 0.25;    // of the time a thread waits for a core
constexpr double kSavesWell = 0.02;  // of the time
constexpr const char* kFewerSaves = "fewer checkpoints take less time, but a crash loses more work";

/// Proposes a larger batch, or returns a sentence without a setting if the batch cannot grow.
Proposals larger_batch(const BottleneckInputs& facts, const char* why) {
  const BottleneckContext& context = facts.context;
  const int factor = gains::batch_factor(facts);
  const std::int64_t batch = factor * context.batch_size;
  if (factor == 0) return {{"", "a larger batch would help, but the training data is too small"}};
  if (batch > kLargestBatch) return {{"", "a larger batch would help, but exceeds the maximum"}};
  return {{fmt::format("loader.batch_size={}", batch),
           fmt::format(
               "{}; a larger batch changes training, so check the loss and the learning rate", why),
           gains::of_larger_batch(facts, factor)},
          {"", fmt::format("a larger batch would help ({}), but loader.batch_size={} is invalid",
                           why, batch)}};
}

// Returns "KEY=N", where N is above `now` and at most the epochs of the run; empty if there is no
// such N.
std::string every_n(const char* key, std::int64_t now, std::int64_t wanted,
                    std::int64_t max_epochs) {
  const std::int64_t n = max_epochs > 0 ? std::min(std::max(wanted, 2 * now), max_epochs) : 0;
  return n > now ? fmt::format("{}={}", key, n) : std::string();
}

// Returns a number of workers whose rate matches the rest of the step: the rate of samples is
// proportional to the number of workers and must grow by wall / rest.
int wanted_workers(int now, double wall_s, double wait_s, int most) {
  const double rest_s = std::max(wall_s - wait_s, 1e-9);
  const double wanted = now == 0 ? wait_s / rest_s : now * wall_s / rest_s;
  return std::clamp(static_cast<int>(std::ceil(std::min(wanted, 1e6))), now + 1, most);
}

int wanted_workers(const BottleneckInputs& facts, int most) {
  return wanted_workers(facts.context.num_workers, facts.timing.wall_s, facts.timing.data_wait_s,
                        most);
}

bool has_mode(const AdviceSettings& levers, const char* mode) {
  return std::ranges::find(levers.cache_modes, mode) != levers.cache_modes.end();
}

/// Returns "a", "a and b" or "a, b and c".
std::string listed(const std::vector<std::string>& words) {
  const std::span<const std::string> all(words);
  if (all.size() < 2) return join(all, "");
  return join(all.first(all.size() - 1), ", ") + " and " + all.back();
}

/// Returns a text such as "settings that may help: a batch of 512 (1.12x to 1.90x as fast as now,
/// ...); tried without a clear gain: 2 threads (0.92x to 1.19x as fast as now, ...); other values
/// of trainer.precision may help, but this run did not test them".
std::string compared_settings(const BottleneckInputs& facts) {
  constexpr double kMayHelp = 1.05;
  std::vector<std::string> gaining;
  std::vector<std::string> compared;
  std::vector<std::string> untried;
  for (const SettingCheck& check : gains::checks_of(facts)) {
    if (!check.done) {
      untried.push_back(check.key);
    } else if (check.gain) {
      (check.gain->low >= kMayHelp ? gaining : compared).push_back(check.text);
    }
  }
  std::vector<std::string> parts;
  if (!gaining.empty()) parts.push_back("settings that may help: " + join(gaining, ", "));
  if (!compared.empty()) parts.push_back("tried without a clear gain: " + join(compared, ", "));
  if (!untried.empty())
    parts.push_back("other values of " + listed(untried) +
                    " may help, but this run did not test them");
  return parts.empty() ? "changing batch size, threads, precision or anomaly checks cannot help"
                       : join(parts, "; ");
}

/// Returns the largest gain of the compared settings, without an upper end if one of them was not
/// tried.
Gain gain_of_compared(const BottleneckInputs& facts) {
  Gain most{.low = 1, .high = 1};
  for (const SettingCheck& check : gains::checks_of(facts)) {
    if (!check.done) return gains::unknown();
    if (!check.gain) continue;
    if (!check.gain->high) return gains::unknown();
    most.high = std::max(*most.high, *check.gain->high);
    most.replayed = most.replayed || check.gain->replayed;
  }
  return most;
}

std::string worker_words(int workers) {
  return fmt::format("{} loader worker{}", workers, plural(workers));
}

std::string slow_workers_text(int workers) {
  if (workers == 0) return "the training thread loads its batches itself";
  return fmt::format("{} {} too slow for the training step", worker_words(workers),
                     workers == 1 ? "is" : "are");
}

}  // namespace

Proposals free_cores(const BottleneckInputs& facts) {
  const auto& usage = facts.context.usage;
  const double share =
      usage ? usage->outside_cores.value_or(0) + usage->stolen_cores.value_or(0) : 0;
  return {{"", fmt::format("stop or move the other processes, which take {} % of the CPU time, and "
                           "run again before you rely on these times",
                           percent_text(share))}};
}

Proposals inspect_rank(const BottleneckInputs& facts) {
  const RankRow& last = *facts.context.straggler;
  return {{"",
           fmt::format("check the load, clocks and disk of the machine of rank {}{}; all other "
                       "ranks wait for this rank, and no setting changes that",
                       last.rank, last.host.empty() ? "" : " (" + printable(last.host) + ")"),
           gains::without(facts, facts.part_s)}};
}

Proposals cool_gpu(const BottleneckInputs& /*facts*/) {
  return {{"", "better cooling or a higher power limit would let the GPU keep its clock rate"}};
}

Proposals other_threads(const BottleneckInputs& facts) {
  const BottleneckContext& context = facts.context;
  const int threads =
      context.other_threads ? static_cast<int>(context.other_threads->value) : context.cores();
  const std::string why =
      threads > context.num_threads
          ? fmt::format("the training step uses {} thread{} on {} cores", context.num_threads,
                        plural(context.num_threads), context.cores())
          : fmt::format("{} compute threads slow each other down", context.num_threads);
  return {{fmt::format("trainer.num_threads={}", threads), why, gains::of_threads(facts, threads)}};
}

Proposals larger_steps(const BottleneckInputs& facts) {
  return larger_batch(facts, "the fixed cost of a step is shared by more samples");
}

Proposals untried_settings(const BottleneckInputs& facts) {
  return {{"", compared_settings(facts), gain_of_compared(facts)}};
}

Proposals less_cache(const BottleneckInputs& facts) {
  Proposals all;
  constexpr double kSmall = 0.25;
  const AdviceSettings& levers = facts.context.levers;
  if (levers.cache_mode != "none" && levers.cache_share.value_or(1) > kSmall)
    all.push_back({"dataset.cache.budget=25%",
                   "a smaller sample cache leaves more memory for everything else"});
  all.push_back({"", "less memory use by other programs, or a higher memory limit, would help"});
  return all;
}

Proposals fewer_threads(const BottleneckInputs& facts) {
  const BottleneckContext& context = facts.context;
  const int cores = context.cores();
  if (cores > 0 && !context.on_gpu && context.num_threads > cores)
    return {{fmt::format("trainer.num_threads={}", cores),
             fmt::format("{} threads share {} core{} and wait for each other", context.num_threads,
                         cores, plural(cores)),
             gains::of_threads(facts, cores)}};
  return {{"", "a larger CPU quota, or no other processes, would help"}};
}

Proposals fewer_workers(const BottleneckInputs& facts) {
  const int cores = facts.context.cores();
  const int workers = std::max(1, cores - std::max(facts.context.num_threads, 1));
  return {{fmt::format("loader.num_workers={}", workers),
           fmt::format("{} compete with the training step, which never waits for a batch",
                       worker_words(facts.context.num_workers))}};
}

Proposals more_workers(const BottleneckInputs& facts) {
  const int now = facts.context.num_workers;
  const int cores = facts.context.cores();
  const int most = std::min(cores > 0 ? cores : std::max(8, 2 * now), kMostWorkers);
  if (now >= most)
    return {{"", "the loader already has the maximum number of workers", gains::of_loading(facts)}};
  return {{fmt::format("loader.num_workers={}", wanted_workers(facts, most)),
           slow_workers_text(now), gains::of_loading(facts)}};
}

Proposals waiting_workers(const BottleneckInputs& facts) {
  const int now = facts.context.num_workers;
  const int most = std::min(std::max(4 * facts.context.cores(), 2 * now + 2), kMostWorkers);
  if (now >= most)
    return {{"", "the source of the samples is slow, and no setting changes that",
             gains::of_loading(facts)}};
  return {{fmt::format("loader.num_workers={}", wanted_workers(facts, most)),
           "the workers are idle while they wait, so more workers than cores help",
           gains::of_loading(facts)}};
}

Proposals workers_of_straggler(const BottleneckInputs& facts) {
  const BottleneckContext& context = facts.context;
  const RankRow& last = *context.straggler;
  const bool is_known = context.straggler_is_here && context.usage && context.usage->cpu_stalled;
  const bool is_full = !is_known || *context.usage->cpu_stalled >= kStalled;
  const int here = std::max(context.cores(), 1);
  const int most = std::min(is_full ? here : 4 * here, kMostWorkers);
  const std::string why =
      fmt::format("rank {0} waits for batches (it has {1}), and all other ranks wait for rank {0}",
                  last.rank, worker_words(context.num_workers));
  if (context.num_workers >= most)
    return {{"", why + ": check the machine and disk of this rank", gains::of_loading(facts)}};
  return {{fmt::format("loader.num_workers={}",
                       wanted_workers(context.num_workers, last.own_s(), last.data_wait_s, most)),
           why, gains::of_loading(facts)}};
}

Proposals one_thread(const BottleneckInputs& facts) {
  return {{"trainer.num_threads=1",
           fmt::format("compute threads spin between steps and take CPU cores from the loader "
                       "because {} is set; unset it, or use one thread",
                       facts.context.levers.spin_variable)}};
}

Proposals read_less(const BottleneckInputs& facts) {
  const AdviceSettings& levers = facts.context.levers;
  const Gain gain = gains::of_loading(facts);
  Proposals all;
  if (levers.cache_mode == "none" && has_mode(levers, "encoded"))
    all.push_back(
        {"dataset.cache.mode=encoded", "the files are read once and then kept in memory", gain});
  if (levers.read_ahead && *levers.read_ahead == 0)
    all.push_back({"loader.read_ahead=32", "files are read ahead, in the order of the disk", gain});
  all.push_back({"", "a faster disk, a pack file or smaller files would help", gain});
  return all;
}

Proposals cache_decoded(const BottleneckInputs& facts) {
  const AdviceSettings& levers = facts.context.levers;
  const std::string all = fmt::format("all {} CPU cores are busy loading", facts.context.cores());
  const bool caches_less = levers.cache_mode == "none" || levers.cache_mode == "encoded";
  Proposals proposals;
  if (caches_less && has_mode(levers, "decoded"))
    proposals.push_back({"dataset.cache.mode=decoded", all + "; a cache avoids decoding again",
                         gains::of_loading(facts)});
  proposals.push_back({"", all + ": fewer or cheaper transforms and smaller images would help",
                       gains::of_loading(facts)});
  return proposals;
}

Proposals pin(const BottleneckInputs& facts) {
  return {{"loader.pin_memory=true", "pinned memory lets copies overlap the training step",
           gains::without(facts, facts.timing.h2d_s + facts.timing.eval_s)},
          {"", "pinned memory would help, but this config does not accept loader.pin_memory=true"}};
}

Proposals keep_on_device(const BottleneckInputs& facts) {
  const Proposal smaller{"", "smaller samples, or samples of 8-bit values, take less time to copy",
                         gains::without(facts, facts.timing.h2d_s)};
  const AdviceSettings& levers = facts.context.levers;
  if (facts.context.on_gpu && levers.cache_mode != "device" && has_mode(levers, "device"))
    return {
        {"dataset.cache.mode=device", "the GPU keeps the images and assembles the batches itself",
         gains::without(facts,
                        facts.timing.h2d_s + facts.timing.data_wait_s + facts.timing.eval_s)},
        smaller};
  return {smaller};
}

Proposals smaller_buckets(const BottleneckInputs& facts) {
  double bytes = 0;
  for (const std::int64_t each : facts.context.bucket_bytes) bytes += static_cast<double>(each);
  constexpr double kBuckets = 8;
  const double cap = std::max(std::floor(bytes / kBuckets / 1e6), 1.0);
  return {{fmt::format("distributed.bucket_cap_mb={}", cap),
           "the all-reduce of the first gradients overlaps the rest of the backward pass",
           gains::without(facts, facts.part_s)},
          {"", "smaller buckets would let the all-reduce start sooner"}};
}

Proposals exchange_less(const BottleneckInputs& facts) {
  return larger_batch(facts, "the ranks exchange gradients less often");
}

Proposals save_async(const BottleneckInputs& facts) {
  return {
      {"checkpoint.async=true", "checkpoints are copied to memory and written in the background",
       gains::without(facts, facts.timing.checkpoint_s)},
      {"", "checkpoints written in the background would not block training",
       gains::without(facts, facts.timing.checkpoint_s)}};
}

Proposals save_less(const BottleneckInputs& facts) {
  const AdviceSettings& levers = facts.context.levers;
  const Gain gain = gains::of_fewer_checkpoints(facts);
  Proposals all;
  const double share = std::clamp(facts.timing.checkpoint_s / facts.timing.wall_s, 0.0, 0.99);
  if (levers.checkpoint_every_steps) {
    const double ratio = std::clamp(share / (1 - share) / kSavesWell, 2.0, 1e6);
    const double steps = std::ceil(static_cast<double>(*levers.checkpoint_every_steps) * ratio);
    all.push_back({fmt::format("checkpoint.every_n_steps={:.0f}", steps), kFewerSaves, gain});
  }
  constexpr double kTenMinutes = 600;
  if (levers.checkpoint_every_s && *levers.checkpoint_every_s < kTenMinutes)
    all.push_back({"checkpoint.every_t=10m", kFewerSaves, gain});
  const std::string epochs =
      every_n("checkpoint.every_n_epochs", levers.checkpoint_every, 5, facts.context.max_epochs);
  if (!epochs.empty()) all.push_back({epochs, kFewerSaves, gain});
  if (levers.checkpoint_on_best)
    all.push_back({"checkpoint.on_best=false",
                   "training then does not wait for a checkpoint after each new best epoch", gain});
  all.push_back({"", kFewerSaves, gain});
  return all;
}

Proposals validate_less(const BottleneckInputs& facts) {
  const std::string setting =
      every_n("trainer.check_val_every_n_epoch", facts.context.levers.validate_every, 2,
              facts.context.max_epochs);
  return {{setting, "validate less often", gains::of_less_validation(facts)},
          {"", "a smaller validation set or trainer.limit_val_batches would help",
           gains::of_less_validation(facts)}};
}

Proposals no_forced_sync(const BottleneckInputs& facts) {
  if (facts.context.levers.detect_anomaly)
    return {{"trainer.detect_anomaly=false",
             "checking every value synchronizes the GPU in each step",
             gains::of_no_anomaly_checks(facts)}};
  return {
      {"trainer.log_every_n_steps=50", "the next log point waits for the values of the last one"}};
}

Proposals record_steps(const BottleneckInputs& /*facts*/) {
  return {{"trainer.cuda_graphs=true",
           "each step is launched as one CUDA graph instead of many kernels"},
          {"", "larger steps would need fewer launches for each sample"}};
}

Proposals no_anomaly_checks(const BottleneckInputs& facts) {
  return {{"trainer.detect_anomaly=false", "anomaly checks test every value of every operation",
           gains::of_no_anomaly_checks(facts)}};
}

Proposals half_precision(const BottleneckInputs& facts) {
  Proposals all{
      {"trainer.precision=bf16-mixed",
       "bf16 matrix products are several times as fast, but less precise, so check the loss",
       gains::of_bf16(facts)}};
  const Proposals more = fill_device(facts);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Proposals fill_device(const BottleneckInputs& facts) {
  return larger_batch(facts, "the GPU may do more work per second if its memory suffices");
}

Proposals fewer_updates(const BottleneckInputs& facts) {
  return larger_batch(facts, "the optimizer updates the weights less often");
}

Proposals more_devices(const BottleneckInputs& facts) {
  if (!facts.context.has_room_for_devices())
    return {{"", compared_settings(facts), gain_of_compared(facts)}};
  return {{"", "more devices may help; " + compared_settings(facts)}};
}

}  // namespace trainctl::report::fixes
