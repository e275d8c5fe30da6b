#include "report/bottleneck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace trainctl::report {
namespace {

constexpr double kNotableWait = 0.15;
constexpr double kNotableWork = 0.40;

struct Part {
  Limit limit;
  double seconds;
};

struct Proposal {
  std::string setting;
  std::string sentence;
};

const Part& largest(std::span<const Part> parts) { return *std::ranges::max_element(parts, {}, &Part::seconds); }

Proposal input_advice(double wait_s, double wall_s, const BottleneckContext& context) {
  if (context.cpu_cores > 0 && context.num_workers >= context.cpu_cores) {
    return {"dataset.cache.mode=decoded",
            fmt::format("all {} CPU cores load already; a cache spares them the decoding", context.cpu_cores)};
  }
  // Workers produce samples at a rate that is proportional to their number; the rest of the step asks for wall / rest.
  const double rest_s = std::max(wall_s - wait_s, 1e-9);
  const double wanted = context.num_workers == 0 ? wait_s / rest_s : context.num_workers * wall_s / rest_s;
  const int cap = context.cpu_cores > 0 ? context.cpu_cores : std::max(8, 2 * context.num_workers);
  const int workers = std::clamp(static_cast<int>(std::ceil(std::min(wanted, 1e6))), context.num_workers + 1, cap);
  return {fmt::format("loader.num_workers={}", workers),
          fmt::format("the step waits for batches with {} loader worker{}", context.num_workers,
                      context.num_workers == 1 ? "" : "s")};
}

Proposal larger_batch(const BottleneckContext& context, const char* why) {
  if (context.batch_size <= 0) return {};
  return {fmt::format("loader.batch_size={}", 2 * context.batch_size),
          fmt::format("{}; a larger batch changes the training, so check the loss and the learning rate", why)};
}

Proposal compute_advice(const BottleneckContext& context) {
  if (context.on_gpu) return larger_batch(context, "a larger batch may fill the device better, while it fits");
  return {"", "the model itself is the work: more devices may help, other settings hardly"};
}

Proposal propose(Limit limit, const Part& part, double wall_s, const BottleneckContext& context) {
  switch (limit) {
    case Limit::input: return input_advice(part.seconds, wall_s, context);
    case Limit::h2d: return {"loader.pin_memory=true", "page-locked memory lets copies run beside the step"};
    case Limit::allreduce: return larger_batch(context, "half as many gradient exchanges per sample");
    case Limit::checkpoint: return {"checkpoint.every_n_epochs=5", "fewer checkpoints; a crash then loses more"};
    case Limit::compute: return compute_advice(context);
    case Limit::optimizer: return larger_batch(context, "half as many updates per sample");
    case Limit::evaluation: return {"trainer.check_val_every_n_epoch=2", "validation in every second epoch only"};
    case Limit::overhead: return larger_batch(context, "fixed costs per step are paid half as often");
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

BottleneckContext context_of(const RunRecord& record, int cpu_cores) {
  BottleneckContext context{.cpu_cores = cpu_cores};
  if (record.started) {
    context.num_workers = record.started->num_workers;
    context.world_size = std::max(record.started->world_size, 1);
    context.batch_size = record.started->global_batch / context.world_size;
  }
  context.on_gpu = !record.hellos.empty() && record.hellos.begin()->second.device.starts_with("cuda");
  return context;
}

Bottleneck find_bottleneck(const events::Timing& timing, const BottleneckContext& context) {
  Bottleneck found;
  if (!(timing.wall_s > 0)) return found;
  const std::array waits{Part{Limit::input, timing.data_wait_s}, Part{Limit::h2d, timing.h2d_s},
                         Part{Limit::allreduce, timing.allreduce_exposed_s},
                         Part{Limit::checkpoint, timing.checkpoint_s}};
  const std::array work{Part{Limit::compute, timing.forward_s + timing.backward_s},
                        Part{Limit::optimizer, timing.optimizer_s}, Part{Limit::evaluation, timing.eval_s},
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
  found.advice = named ? fmt::format("try {}: {}", proposal.setting, proposal.sentence) : proposal.sentence;
  return found;
}

Json to_json(const Bottleneck& bottleneck) {
  return {{"verdict", name_of(bottleneck.limit)},
          {"share", bottleneck.share},
          {"headroom", bottleneck.headroom},
          {"advice", bottleneck.advice}};
}

}  // namespace trainctl::report
