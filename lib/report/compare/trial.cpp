#include "report/compare/trial.hpp"

#include "base/statistics.hpp"
#include "report/compare/bench.hpp"
#include "report/diagnosis/bottleneck.hpp"
#include "report/diagnosis/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainctl::report {
namespace {

/// Of two losses; 0 where they are the same, NaN where one alone is not finite.
double relative_gap(double wanted, double found) {
  if (wanted == found || (std::isnan(wanted) && std::isnan(found))) return 0;
  if (!std::isfinite(wanted) || !std::isfinite(found)) return std::nan("");
  const double larger = std::max(std::abs(wanted), std::abs(found));
  return std::abs(wanted - found) / larger;
}

/// What the ranks told of their waits.
void add_ranks(const RunRecord& record, Trial& trial) {
  const std::vector<RankRow> ranks = rank_rows(record);
  const RankRow* last = slowest(ranks);
  if (last == nullptr) return;
  trial.slowest = SlowRank{last->rank, last->behind};
  std::vector<double> exposed;
  std::vector<double> steps;
  for (const RankRow& rank : ranks) {
    exposed.push_back(rank.exposed_s);
    steps.push_back(rank.step_s);
  }
  trial.exposed_s = mean(exposed);
  if (mean(steps) > 0) trial.exposed_share = mean(exposed) / mean(steps);
}

double taken_by_others(const RunRecord& record) {
  const auto usage = sum_usage(record.epochs);
  return usage ? taken_cores(*usage) : 0;
}

}  // namespace

Trial trial_of(const RunRecord& record, double total_s) {
  Trial trial{.total_s = total_s};
  if (const auto hello = record.hellos.find(0); hello != record.hellos.end())
    trial.startup_s = hello->second.startup_s;
  for (const events::EpochEnded& epoch : record.epochs) {
    trial.epoch_s.push_back(epoch.timing.wall_s);
    if (const auto loss = events::find_metric(epoch.metrics, "train/loss"))
      trial.losses.push_back(*loss);
  }
  if (!record.epochs.empty()) {
    trial.first_batch_s = record.epochs.front().timing.first_batch_s;
    trial.metrics = record.epochs.back().metrics;
    const events::Timing all = sum_timing(record.epochs);
    trial.rss_mb = all.rss_mb;
    trial.gpu_mem_mb = all.gpu_mem_mb;
  }
  trial.samples_per_s = sum_timing(steady_epochs(record)).samples_per_s;
  if (const auto end = record.finished.find(0); end != record.finished.end())
    trial.data_digest = end->second.data_digest;
  if (record.started) {
    trial.global_batch = record.started->global_batch;
    trial.num_threads = record.started->num_threads;
  }
  add_ranks(record, trial);
  trial.taken = taken_by_others(record);
  return trial;
}

std::optional<bool> same_batches(const BenchRow& base, const BenchRow& row) {
  if (base.trials.empty() || row.trials.empty()) return std::nullopt;
  const std::string& wanted = base.trials.front().data_digest;
  const auto known = [](const Trial& trial) { return !trial.data_digest.empty(); };
  if (wanted.empty() || !std::ranges::all_of(row.trials, known)) return std::nullopt;
  return std::ranges::all_of(row.trials,
                             [&](const Trial& trial) { return trial.data_digest == wanted; });
}

std::optional<double> loss_gap(const BenchRow& base, const BenchRow& row) {
  if (base.trials.empty() || row.trials.empty() || base.trials.front().losses.empty())
    return std::nullopt;
  const std::vector<double>& wanted = base.trials.front().losses;
  double gap = 0;
  for (const Trial& trial : row.trials) {
    if (trial.losses.size() != wanted.size()) return std::nullopt;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double one = relative_gap(wanted[i], trial.losses[i]);
      if (std::isnan(one)) return std::nullopt;
      gap = std::max(gap, one);
    }
  }
  return gap;
}

std::string loss_text(const std::optional<double>& gap) {
  constexpr double kOfRounding = 1e-4;
  if (!gap) return "?";
  if (*gap == 0) return "same";
  if (*gap > kOfRounding) return "differ";
  return fmt::format("within {:.0e}", std::pow(10, std::ceil(std::log10(*gap))));
}

namespace {

using Told = std::vector<std::pair<std::string, double>>;

Told told_by(const Trial& trial) {
  Told told{{"samples_per_s", trial.samples_per_s},
            {"total_s", trial.total_s},
            {"epoch_s", steady_epoch_s(trial)},
            {"startup_s", trial.startup_s},
            {"first_batch_s", trial.first_batch_s}};
  if (trial.rss_mb > 0) told.emplace_back("rss_mb", trial.rss_mb);
  if (trial.gpu_mem_mb) told.emplace_back("gpu_mem_mb", *trial.gpu_mem_mb);
  if (trial.exposed_s) told.emplace_back("exposed_s", *trial.exposed_s);
  told.insert(told.end(), trial.metrics.begin(), trial.metrics.end());
  return told;
}

}  // namespace

Samples samples_of(std::span<const Trial> trials) {
  Samples samples;
  for (const Trial& trial : trials) {
    for (const auto& [name, value] : told_by(trial)) samples[name].push_back(value);
  }
  std::erase_if(samples, [&](const auto& each) { return each.second.size() != trials.size(); });
  return samples;
}

}  // namespace trainctl::report
