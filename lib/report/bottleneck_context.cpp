#include "report/bottleneck.hpp"

#include <algorithm>

namespace trainctl::report {
namespace {

using events::Usage;

void add_share(std::optional<double>& sum, const std::optional<double>& share, double span_s) {
  if (share) sum = sum.value_or(0) + *share * span_s;
}

void take_peak(std::optional<double>& peak, const std::optional<double>& value) {
  if (value) peak = std::max(peak.value_or(*value), *value);
}

constexpr std::optional<double> Usage::*kWeighted[] = {
    &Usage::cpu_stalled,  &Usage::io_stalled,  &Usage::memory_stalled, &Usage::throttled,
    &Usage::loader_cores, &Usage::gpu_power_w, &Usage::pcie_mb_s};

void add(Usage& sum, const Usage& more) {
  for (const auto member : kWeighted) add_share(sum.*member, more.*member, more.span_s);
  sum.span_s += more.span_s;
  sum.major_faults_s += more.major_faults_s * more.span_s;
  sum.involuntary_switches_s += more.involuntary_switches_s * more.span_s;
  sum.cores = more.cores;
  sum.loader_threads = std::max(sum.loader_threads, more.loader_threads);
  take_peak(sum.memory_taken, more.memory_taken);
  take_peak(sum.gpu_power_limit_w, more.gpu_power_limit_w);
  if (!more.gpu_throttle.empty()) sum.gpu_throttle = more.gpu_throttle;
}

void tell_exchange(const RunRecord& record, BottleneckContext& context) {
  const std::vector<RankRow> rows = rank_rows(record);
  if (rows.empty()) return;
  if (const RankRow* last = straggler(rows)) context.straggler = *last;
  context.overlap = rows.front().overlap;
  const auto rank0 = record.rank_epochs.find(0);
  if (rank0 != record.rank_epochs.end() && !rank0->second.empty())
    context.bucket_bytes = rank0->second.back().bucket_bytes;
}

}  // namespace

int BottleneckContext::cores() const {
  if (usage && usage->cores > 0) return usage->cores;
  return levers.cpu_cores;
}

std::optional<Usage> sum_usage(std::span<const events::EpochEnded> epochs) {
  std::optional<Usage> sum;
  for (const events::EpochEnded& epoch : epochs) {
    if (!epoch.usage || !(epoch.usage->span_s > 0)) continue;
    if (!sum) sum.emplace();
    add(*sum, *epoch.usage);
  }
  if (!sum) return sum;
  for (const auto member : kWeighted) {
    if ((*sum).*member) *((*sum).*member) /= sum->span_s;
  }
  sum->major_faults_s /= sum->span_s;
  sum->involuntary_switches_s /= sum->span_s;
  return sum;
}

BottleneckContext context_of(const RunRecord& record, const Levers& levers) {
  BottleneckContext context{.levers = levers};
  if (record.started) {
    context.num_workers = record.started->num_workers;
    context.num_threads = record.started->num_threads;
    context.world_size = std::max(record.started->world_size, 1);
    context.train_samples = record.started->train_samples;
    context.max_epochs = record.started->max_epochs;
    context.batch_size = record.started->global_batch / context.world_size;
  }
  context.on_gpu =
      !record.hellos.empty() && record.hellos.begin()->second.device.starts_with("cuda");
  context.usage = sum_usage(steady_epochs(record));
  tell_exchange(record, context);
  if (const auto rank0 = record.finished.find(0); rank0 != record.finished.end()) {
    context.replay_step_s = rank0->second.replay_step_s;
    context.replay_steps = rank0->second.replay_steps;
  }
  return context;
}

}  // namespace trainctl::report
