#include "report/bottleneck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace trainctl::report {
namespace {

constexpr double kNotableWait = 0.15;
constexpr double kNotableWork = 0.40;
// What the experiment file allows; a test asks it.
constexpr int kMostWorkers = 256;
constexpr std::int64_t kLargestBatch = std::int64_t{1} << 24;

struct Part {
  Limit limit;
  double seconds;
};

struct Proposal {
  std::string setting;
  std::string sentence;
};

const Part& largest(std::span<const Part> parts) {
  return *std::ranges::max_element(parts, {}, &Part::seconds);
}

Proposal cache_advice(const Levers& levers) {
  const std::string all = fmt::format("all {} CPU cores load already", levers.cpu_cores);
  const bool caches_less = levers.cache_mode == "none" || levers.cache_mode == "encoded";
  if (caches_less && std::ranges::find(levers.cache_modes, "decoded") != levers.cache_modes.end()) {
    return {"dataset.cache.mode=decoded", all + "; a cache spares them the decoding"};
  }
  return {"", all + ": fewer or cheaper transforms and smaller images would help"};
}

Proposal input_advice(double wait_s, double wall_s, const BottleneckContext& context) {
  const int cores = context.levers.cpu_cores;
  if (cores > 0 && context.num_workers >= cores) return cache_advice(context.levers);
  const int cap = std::min(cores > 0 ? cores : std::max(8, 2 * context.num_workers), kMostWorkers);
  if (context.num_workers >= cap) return {"", "the loader has as many workers as it may have"};
  // Workers produce samples at a rate that is proportional to their number; the rest of the step
  // asks for wall / rest.
  const double rest_s = std::max(wall_s - wait_s, 1e-9);
  const double wanted =
      context.num_workers == 0 ? wait_s / rest_s : context.num_workers * wall_s / rest_s;
  const int workers =
      std::clamp(static_cast<int>(std::ceil(std::min(wanted, 1e6))), context.num_workers + 1, cap);
  return {fmt::format("loader.num_workers={}", workers),
          fmt::format("the step waits for batches with {} loader worker{}", context.num_workers,
                      context.num_workers == 1 ? "" : "s")};
}

Proposal larger_batch(const BottleneckContext& context, const char* why) {
  const std::int64_t batch = 2 * context.batch_size;
  const bool fits = batch <= kLargestBatch && batch * context.world_size <= context.train_samples;
  if (batch <= 0 || !fits) return {};
  return {
      fmt::format("loader.batch_size={}", batch),
      fmt::format(
          "{}; a larger batch changes the training, so check the loss and the learning rate", why)};
}

// "KEY=N", N above `now` and at most the epochs of the run; nothing where there is no such N.
std::string every_n(const char* key, std::int64_t now, std::int64_t wanted,
                    std::int64_t max_epochs) {
  const std::int64_t n = max_epochs > 0 ? std::min(std::max(wanted, 2 * now), max_epochs) : 0;
  return n > now ? fmt::format("{}={}", key, n) : std::string();
}

Proposal checkpoint_advice(const BottleneckContext& context) {
  return {
      every_n("checkpoint.every_n_epochs", context.levers.checkpoint_every, 5, context.max_epochs),
      "fewer checkpoints; a crash then loses more"};
}

Proposal evaluation_advice(const BottleneckContext& context) {
  return {every_n("trainer.check_val_every_n_epoch", context.levers.validate_every, 2,
                  context.max_epochs),
          "validation less often"};
}

Proposal h2d_advice(const BottleneckContext& context) {
  if (!context.on_gpu) return {};
  return {"loader.pin_memory=true", "page-locked memory lets copies run beside the step"};
}

Proposal compute_advice(const BottleneckContext& context) {
  if (context.on_gpu)
    return larger_batch(context, "a larger batch may fill the device better, while it fits");
  return {"", "the model itself is the work: more devices may help, other settings hardly"};
}

Proposal propose(Limit limit, const Part& part, double wall_s, const BottleneckContext& context) {
  switch (limit) {
    case Limit::input: return input_advice(part.seconds, wall_s, context);
    case Limit::h2d: return h2d_advice(context);
    case Limit::allreduce:
      return larger_batch(context, "half as many gradient exchanges per sample");
    case Limit::checkpoint: return checkpoint_advice(context);
    case Limit::compute: return compute_advice(context);
    case Limit::optimizer: return larger_batch(context, "half as many updates per sample");
    case Limit::evaluation: return evaluation_advice(context);
    case Limit::overhead:
      return larger_batch(context, "fixed costs per step are paid half as often");
    case Limit::balanced: return {};
  }
  return {};
}

}  // namespace

const char* name_of(Limit limit) {
  constexpr std::array kNames{"input_bound",      "h2d_bound",      "allreduce_bound",
                              "checkpoint_bound", "compute_bound",  "optimizer_bound",
                              "evaluation_bound", "overhead_bound", "balanced"};
  return kNames[static_cast<std::size_t>(limit)];
}

BottleneckContext context_of(const RunRecord& record, const Levers& levers) {
  BottleneckContext context{.levers = levers};
  if (record.started) {
    context.num_workers = record.started->num_workers;
    context.world_size = std::max(record.started->world_size, 1);
    context.train_samples = record.started->train_samples;
    context.max_epochs = record.started->max_epochs;
    context.batch_size = record.started->global_batch / context.world_size;
  }
  context.on_gpu =
      !record.hellos.empty() && record.hellos.begin()->second.device.starts_with("cuda");
  return context;
}

Bottleneck find_bottleneck(const events::Timing& timing, const BottleneckContext& context) {
  Bottleneck found;
  if (!(timing.wall_s > 0)) return found;
  const std::array waits{Part{Limit::input, timing.data_wait_s}, Part{Limit::h2d, timing.h2d_s},
                         Part{Limit::allreduce, timing.allreduce_exposed_s},
                         Part{Limit::checkpoint, timing.checkpoint_s}};
  const std::array work{Part{Limit::compute, timing.forward_s + timing.backward_s},
                        Part{Limit::optimizer, timing.optimizer_s},
                        Part{Limit::evaluation, timing.eval_s},
                        Part{Limit::overhead, timing.other_s}};
  const Part& wait = largest(waits);
  const Part& labour = largest(work);
  const bool waiting = wait.seconds >= kNotableWait * timing.wall_s;
  const Part& part = waiting ? wait : labour;
  found.share = part.seconds / timing.wall_s;
  found.limit = waiting || found.share >= kNotableWork ? part.limit : Limit::balanced;
  const bool needed = found.limit == Limit::compute || found.limit == Limit::balanced;
  double removable_s = part.seconds;
  if (needed) {
    removable_s = timing.other_s;
    for (const Part& each : waits) removable_s += each.seconds;
  }
  found.headroom = timing.wall_s / std::max(timing.wall_s - removable_s, 1e-3 * timing.wall_s);
  const Proposal proposal = propose(found.limit, part, timing.wall_s, context);
  found.setting = proposal.setting;
  const bool named = !proposal.setting.empty();
  found.advice =
      named ? fmt::format("try {}: {}", proposal.setting, proposal.sentence) : proposal.sentence;
  return found;
}

Json to_json(const Bottleneck& bottleneck) {
  return {{"verdict", name_of(bottleneck.limit)},
          {"share", bottleneck.share},
          {"headroom", bottleneck.headroom},
          {"advice", bottleneck.advice}};
}

}  // namespace trainctl::report
