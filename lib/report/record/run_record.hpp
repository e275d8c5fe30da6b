#pragma once

#include "events/records.hpp"

#include <set>
#include <span>

namespace trainctl::report {

/// The events of all ranks of a run, in order. Tables, summaries and result.json are computed from
/// it. Epochs are numbered from 0 here and in the events, and from 1 in all output.
struct RunRecord {
  int planned_ranks = 0;                // of the whole job; 0: unknown
  std::map<int, events::Hello> hellos;  // by rank
  std::optional<events::WeightsSet> weights;
  std::optional<events::RunStarted> started;
  std::vector<events::EpochEnded>
      epochs;  // of rank 0, ascending; a repeated epoch replaces the old one
  std::map<int, std::vector<events::RankEpoch>> rank_epochs;  // by rank, as `epochs`
  std::vector<events::CheckpointSaved> checkpoints;
  std::optional<events::Resumed> resumed;  // set if this start resumed
  std::optional<events::StoppedEarly> stopped_early;
  std::optional<events::Evaluated> evaluated;  // by eval and predict, or by trainer.test
  std::optional<events::Replayed> replayed;    // for a replayed step
  std::vector<events::TableRow> tables;        // of the last epoch that has any
  std::vector<std::string> warnings;
  std::set<std::string> skipped;             // damaged samples, with their split
  std::map<int, events::Failed> failures;    // by rank
  std::map<int, events::Finished> finished;  // by rank
  std::int64_t last_step = 0;                // highest global step in any event

  void add(int rank, const events::Event& event);
};

/// Returns the number of ranks of the job, including ranks that failed before they reported.
int world_size_of(const RunRecord& record);

/// The best epoch so far by the monitored metric.
struct Best {
  std::string metric;
  double value = 0;
  std::int64_t epoch = 0;  // from 0
  std::string checkpoint;  // relative to the run folder; empty if none was saved
};
/// Returns the best epoch; nullopt if no epoch has improved the monitor.
std::optional<Best> best_of(const RunRecord& record);

/// Returns the weights files of the run, each once in its last version, the newest last. They
/// contain weights only, so that no run can resume from them.
std::vector<events::CheckpointSaved> kept_checkpoints(const RunRecord& record);

/// Returns the number of complete epochs, including those before a resume.
std::int64_t epochs_done(const RunRecord& record);

/// The items after the first; the first itself if there is no other.
template <class T>
std::span<const T> without_first(std::span<const T> all) {
  return all.size() > 1 ? all.subspan(1) : all;
}
/// Returns the epochs after the first, whose warmup is reported separately; the first if there is
/// no other.
std::span<const events::EpochEnded> steady_epochs(const RunRecord& record);

/// Sums seconds and samples; computes samples_per_s for the total, averages utilizations by time,
/// and takes the peak of memory.
events::Timing sum_timing(std::span<const events::EpochEnded> epochs);

/// Returns the metrics of the last epoch that start with `prefix` ("val/"), without the prefix.
events::Metrics last_metrics(const RunRecord& record, const std::string& prefix);
/// Returns the metrics that begin with this prefix, without it.
events::Metrics metrics_of(const events::Metrics& all, const std::string& prefix);

/// Returns the columns of timing.csv after `epoch`, which are also the keys of `timing` in
/// result.json.
std::vector<std::pair<std::string, std::optional<double>>> timing_columns(
    const events::Timing& timing);

}  // namespace trainctl::report
