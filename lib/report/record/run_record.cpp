#include "report/record/run_record.hpp"

#include "base/strings.hpp"
#include "events/fields.hpp"

#include <ranges>

namespace trainctl::report {
namespace {

using events::Timing;

struct Recorder {
  RunRecord& record;
  int rank;

  void operator()(const events::Hello& event) { record.hellos[rank] = event; }
  void operator()(const events::WeightsSet& event) { record.weights = event; }
  void operator()(const events::RunStarted& event) { record.started = event; }
  void operator()(const events::Progress& event) { saw_step(event.global_step); }
  void operator()(const events::StepLogged& event) { saw_step(event.global_step); }
  void operator()(const events::LayerNorms& /*event*/) {}    // only logged
  void operator()(const events::Distribution& /*event*/) {}  // only logged
  void operator()(const events::Validated& event) { saw_step(event.global_step); }
  void operator()(const events::EpochEnded& event) {
    saw_step(event.global_step);
    if (rank == 0) append(record.epochs, event);
  }
  void operator()(const events::RankEpoch& event) { append(record.rank_epochs[rank], event); }
  void operator()(const events::TableRow& event) {
    if (rank != 0) return;
    if (!record.tables.empty() && record.tables.back().epoch != event.epoch) record.tables.clear();
    record.tables.push_back(event);
  }
  void operator()(const events::CheckpointSaved& event) { record.checkpoints.push_back(event); }
  void operator()(const events::Resumed& event) {
    saw_step(event.global_step);
    record.resumed = event;
  }
  void operator()(const events::StoppedEarly& event) { record.stopped_early = event; }
  void operator()(const events::Evaluated& event) {
    if (rank == 0) record.evaluated = event;
  }
  void operator()(const events::Warning& event) {
    record.warnings.push_back(bounded(event.message));
    if (!event.sample.empty()) record.skipped.insert(event.sample);
  }
  void operator()(const events::Failed& event) {
    saw_step(event.global_step);
    record.failures.try_emplace(rank, event);
  }
  void operator()(const events::Finished& event) {
    saw_step(event.global_step);
    record.finished[rank] = event;
  }
  void operator()(const events::Measured& /*event*/) {}      // not an event of a run
  void operator()(const events::LinkMeasured& /*event*/) {}  // not an event of a run
  void operator()(const events::GpuChecked& /*event*/) {}    // not an event of a run
  void operator()(const events::Replayed& event) { record.replayed = event; }

  template <class Epoch>
  static void append(std::vector<Epoch>& epochs, const Epoch& event) {
    while (!epochs.empty() && epochs.back().epoch >= event.epoch) epochs.pop_back();
    epochs.push_back(event);
  }
  void saw_step(std::int64_t step) { record.last_step = std::max(record.last_step, step); }
};

}  // namespace

void RunRecord::add(int rank, const events::Event& event) {
  std::visit(Recorder{*this, rank}, event);
}

int world_size_of(const RunRecord& record) {
  if (record.started) return record.started->world_size;
  return std::max({1, record.planned_ranks, static_cast<int>(record.hellos.size())});
}

std::optional<Best> best_of(const RunRecord& record) {
  const auto newest_first = record.epochs | std::views::reverse;
  const auto epoch = std::ranges::find_if(newest_first, &events::EpochEnded::improved);
  if (epoch == newest_first.end() || !record.started) return std::nullopt;
  Best best{.metric = record.started->monitor, .epoch = epoch->epoch};
  for (const events::CheckpointSaved& saved : record.checkpoints) {
    if (!saved.verified && !saved.metric.empty() && saved.epoch == best.epoch)
      best.checkpoint = saved.path;
  }
  const auto value = events::find_metric(epoch->metrics, best.metric);
  if (!value) return std::nullopt;
  best.value = *value;
  return best;
}

std::vector<events::CheckpointSaved> kept_checkpoints(const RunRecord& record) {
  std::vector<events::CheckpointSaved> kept;
  for (const events::CheckpointSaved& saved : record.checkpoints) {
    if (saved.verified) continue;  // it contains a full state
    std::erase_if(kept, [&](const auto& earlier) { return earlier.path == saved.path; });
    kept.push_back(saved);
  }
  return kept;
}

std::int64_t epochs_done(const RunRecord& record) {
  return record.epochs.empty() ? 0 : record.epochs.back().epoch + 1;
}

std::span<const events::EpochEnded> steady_epochs(const RunRecord& record) {
  return without_first<events::EpochEnded>(record.epochs);
}

Timing sum_timing(std::span<const events::EpochEnded> epochs) {
  Timing total;
  for (const events::EpochEnded& epoch : epochs) {
    const Timing& part = epoch.timing;
    events::add_times(total, part);
    total.first_batch_s += part.first_batch_s;
    total.samples += part.samples;
    total.cpu_percent += part.cpu_percent * part.wall_s;
    total.read_mb_s += part.read_mb_s * part.wall_s;
    if (part.gpu_util) total.gpu_util = total.gpu_util.value_or(0) + *part.gpu_util * part.wall_s;
    total.rss_mb = std::max(total.rss_mb, part.rss_mb);
    if (part.gpu_mem_mb)
      total.gpu_mem_mb = std::max(total.gpu_mem_mb.value_or(0), *part.gpu_mem_mb);
  }
  total.samples_per_s = events::training_rate(total);
  if (total.wall_s > 0) {
    total.cpu_percent /= total.wall_s;
    total.read_mb_s /= total.wall_s;
    if (total.gpu_util) *total.gpu_util /= total.wall_s;
  }
  return total;
}

events::Metrics last_metrics(const RunRecord& record, const std::string& prefix) {
  return metrics_of(record.epochs.empty() ? events::Metrics() : record.epochs.back().metrics,
                    prefix);
}

events::Metrics metrics_of(const events::Metrics& all, const std::string& prefix) {
  events::Metrics found;
  for (const auto& [name, value] : all) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), value);
  }
  return found;
}

std::vector<std::pair<std::string, std::optional<double>>> timing_columns(const Timing& timing) {
  std::vector<std::pair<std::string, std::optional<double>>> columns;
  events::each_field(
      timing, [&](const char* name, const auto& value) { columns.emplace_back(name, value); });
  return columns;
}

}  // namespace trainctl::report
