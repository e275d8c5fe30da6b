#pragma once

#include "report/record/run_record.hpp"
#include "report/text/table.hpp"

#include <cmath>

namespace trainctl::report {

/// The averages of one of several ranks over its epochs, without the first if there are others.
/// Times and bytes are per step. If CUDA graphs contain the exchange of gradients, the numbers of
/// work and exchange are NaN.
struct RankRow {
  int rank = 0;
  std::string host;        // empty: not reported
  std::string device;      // "cuda:1"
  std::int64_t steps = 0;  // number of steps in the averages
  double step_s = 0;       // wall time
  double data_wait_s = 0;
  double work_s = 0;     // copy, forward, backward, update
  double exposed_s = 0;  // waits for other ranks
  double overlap = 0;    // fraction of the all-reduce that overlapped the backward pass
  std::int64_t wire_bytes = 0;
  double slowdown = 0;       // own time beyond the median of all ranks, relative to the median
  double wait_beyond_s = 0;  // data wait beyond the median of all ranks

  /// Returns the time that the others wait for: ranks that synchronize in each step have the same
  /// wall time, and the slowest rank waits least.
  [[nodiscard]] double own_s() const { return data_wait_s + work_s; }
  [[nodiscard]] bool knows_work() const { return !std::isnan(work_s); }
};

/// Returns the rows by rank; empty if fewer than two ranks have reported a step.
std::vector<RankRow> rank_rows(const RunRecord& record);

/// Returns the rank with the longest own time; null if there are no rows, or if it is not known.
const RankRow* slowest(std::span<const RankRow> rows);
/// Returns the slowest rank if it is more than 10 % slower than the median; else null.
const RankRow* straggler(std::span<const RankRow> rows);

/// Returns a table of rank, host (if there are several), step, data wait, work, exposed all-reduce,
/// bytes, overlap, slowdown. For more than 16 ranks it has the eight slowest.
Table ranks_table(std::span<const RankRow> rows);
/// Returns one sentence: which rank is slowest, and whether the others wait for it.
std::string ranks_verdict(std::span<const RankRow> rows);
/// Returns `ranks` of result.json: a list, empty for one rank.
Json ranks_json(std::span<const RankRow> rows);
/// Returns `straggler` of result.json: {rank, host, slowdown}; null if there is no straggler.
Json straggler_json(std::span<const RankRow> rows);

/// A column of ranks.csv: seconds or a fraction in `number`, or a count in `count`.
struct RankColumn {
  const char* name;
  double events::RankEpoch::*number = nullptr;
  std::int64_t events::RankEpoch::*count = nullptr;
};
/// Returns the columns of ranks.csv between `epoch`, `rank` and `bucket_bytes`.
std::span<const RankColumn> rank_columns();
/// Returns the row of ranks.csv.
std::vector<CsvField> rank_fields(const events::RankEpoch& epoch);

}  // namespace trainctl::report
