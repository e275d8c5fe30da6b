#include "report/diagnosis/bottleneck.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>

namespace trainctl::report {
namespace {

using events::Usage;

void take_peak(std::optional<double>& peak, const std::optional<double>& value) {
  if (value) peak = std::max(peak.value_or(*value), *value);
}

constexpr std::array<std::optional<double> Usage::*, 11> kWeighted{
    &Usage::cpu_stalled,  &Usage::io_stalled,  &Usage::memory_stalled, &Usage::throttled,
    &Usage::loader_cores, &Usage::gpu_power_w, &Usage::pcie_mb_s,      &Usage::outside_cores,
    &Usage::stolen_cores, &Usage::idle_cores,  &Usage::core_wait};

/// Usage over epochs, each of which may lack some of it.
class UsageSum {
 public:
  void add(const Usage& more);
  [[nodiscard]] Usage mean() const;

 private:
  Usage sum_;
  std::array<double, kWeighted.size()> spans_{};   // of the epochs that tell it
  std::map<std::string, double> throttled_spans_;  // by why, "" where the clocks were free
};

void UsageSum::add(const Usage& more) {
  for (std::size_t i = 0; i < kWeighted.size(); ++i) {
    const auto& value = more.*kWeighted[i];
    if (!value) continue;
    auto& sum = sum_.*kWeighted[i];
    sum = sum.value_or(0) + *value * more.span_s;
    spans_[i] += more.span_s;
  }
  sum_.span_s += more.span_s;
  sum_.major_faults_s += more.major_faults_s * more.span_s;
  sum_.involuntary_switches_s += more.involuntary_switches_s * more.span_s;
  sum_.cores = more.cores;
  sum_.loader_threads = std::max(sum_.loader_threads, more.loader_threads);
  take_peak(sum_.memory_taken, more.memory_taken);
  take_peak(sum_.gpu_power_limit_w, more.gpu_power_limit_w);
  throttled_spans_[more.gpu_throttle] += more.span_s;
}

Usage UsageSum::mean() const {
  Usage mean = sum_;
  for (std::size_t i = 0; i < kWeighted.size(); ++i) {
    if (auto& value = mean.*kWeighted[i]) *value /= spans_[i];
  }
  mean.major_faults_s /= sum_.span_s;
  mean.involuntary_switches_s /= sum_.span_s;
  for (const auto& [why, span_s] : throttled_spans_) {
    if (2 * span_s > sum_.span_s) mean.gpu_throttle = why;
  }
  return mean;
}

void tell_exchange(const RunRecord& record, BottleneckContext& context) {
  const std::vector<RankRow> rows = rank_rows(record);
  if (rows.empty()) return;
  if (const RankRow* last = straggler(rows)) {
    context.straggler = *last;
    context.straggler_is_here = last->host == rows.front().host;
  }
  const double work_s = std::ranges::max(rows, {}, &RankRow::work_s).work_s;
  context.ranks_wait_s = slowest(rows)->own_s() - work_s;
  context.overlap = rows.front().overlap;
  const auto rank0 = record.rank_epochs.find(0);
  if (rank0 != record.rank_epochs.end() && !rank0->second.empty())
    context.bucket_bytes = rank0->second.back().bucket_bytes;
}

void take_replayed_settings(const events::Finished& finished, BottleneckContext& context) {
  if (finished.larger_batch && finished.larger_batch_step_s)
    context.larger_batch = {*finished.larger_batch, *finished.larger_batch_step_s};
  if (finished.other_threads && finished.other_threads_step_s)
    context.other_threads = {*finished.other_threads, *finished.other_threads_step_s};
  context.bf16_step_s = finished.bf16_step_s;
}

}  // namespace

int BottleneckContext::cores() const {
  if (usage && usage->cores > 0) return usage->cores;
  return levers.cpu_cores;
}

bool BottleneckContext::has_room_for_devices() const {
  return !on_gpu && levers.cpu_cores > world_size;
}

std::optional<Usage> sum_usage(std::span<const events::EpochEnded> epochs) {
  std::optional<UsageSum> sum;
  for (const events::EpochEnded& epoch : epochs) {
    if (!epoch.usage || !(epoch.usage->span_s > 0)) continue;
    if (!sum) sum.emplace();
    sum->add(*epoch.usage);
  }
  return sum ? std::optional(sum->mean()) : std::nullopt;
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
    take_replayed_settings(rank0->second, context);
  }
  return context;
}

}  // namespace trainctl::report
