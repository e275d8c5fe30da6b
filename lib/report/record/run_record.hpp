#pragma once

#include "events/records.hpp"

#include <set>
#include <span>

namespace trainctl::report {

/// Everything the ranks of one run have told, in order. Tables, summaries and result.json are
/// functions of it. Epochs are numbered from 0 here as in the events, and from 1 in everything that
/// a person or a script reads.
struct RunRecord {
  int planned_ranks = 0;                // of the whole job; 0: not known
  std::map<int, events::Hello> hellos;  // by rank
  std::optional<events::WeightsSet> weights;
  std::optional<events::RunStarted> started;
  std::vector<events::EpochEnded>
      epochs;  // of rank 0, ascending; an epoch that is done again replaces the old one
  std::map<int, std::vector<events::RankEpoch>> rank_epochs;  // by rank, as `epochs`; of several
  std::vector<events::CheckpointSaved> checkpoints;
  std::optional<events::Resumed> resumed;  // by this start
  std::optional<events::StoppedEarly> stopped_early;
  std::optional<events::Evaluated> evaluated;  // of what trains nothing
  std::optional<events::Replayed> replayed;    // of a step that is repeated
  std::vector<events::TableRow> tables;        // of the last epoch that has any
  std::vector<std::string> warnings;
  std::set<std::string> skipped;             // damaged samples, with their split
  std::map<int, events::Failed> failures;    // by rank
  std::map<int, events::Finished> finished;  // by rank
  std::int64_t last_step = 0;                // the highest global step that any event told

  void add(int rank, const events::Event& event);
};

/// Returns the number of ranks of the job, also where some of them failed before they reported.
int world_size_of(const RunRecord& record);

/// The best epoch so far by the monitored metric.
struct Best {
  std::string metric;
  double value = 0;
  std::int64_t epoch = 0;  // from 0
  std::string checkpoint;  // relative to the run folder; empty if none was kept
};
std::optional<Best> best_of(const RunRecord& record);

/// Weights that the run has left, each file once as it was written last, the newest last. They hold
/// weights only: no run can continue from them.
std::vector<events::CheckpointSaved> kept_checkpoints(const RunRecord& record);

/// Epochs that are complete, those before a resume among them.
std::int64_t epochs_done(const RunRecord& record);

/// The items after the first; the first itself if there is no other.
template <class T>
std::span<const T> without_first(std::span<const T> all) {
  return all.size() > 1 ? all.subspan(1) : all;
}
/// The epochs after the first, whose warm-up is reported apart; the first if there is no other.
std::span<const events::EpochEnded> steady_epochs(const RunRecord& record);

/// Sums of the seconds and samples; samples_per_s of the whole; utilisations weighted by time;
/// memory at its peak.
events::Timing sum_timing(std::span<const events::EpochEnded> epochs);

/// {"val/loss", ...} of the last epoch that start with `prefix` ("val/"), without it.
events::Metrics last_metrics(const RunRecord& record, const std::string& prefix);

/// The columns of timing.csv after `epoch`, and the keys of result.json's `timing`: names as in the
/// contract.
std::vector<std::pair<std::string, std::optional<double>>> timing_columns(
    const events::Timing& timing);

}  // namespace trainctl::report
