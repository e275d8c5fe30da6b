#pragma once

#include "base/json.hpp"
#include "report/record/run_record.hpp"
#include "report/text/format.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {

/// What one of several ranks told of its epochs, the first left out where there are others. Times
/// and bytes are those of a step.
struct RankRow {
  int rank = 0;
  std::string host;        // empty: it did not say
  std::string device;      // "cuda:1"
  std::int64_t steps = 0;  // that the means are of
  double step_s = 0;       // wall time
  double data_wait_s = 0;
  double work_s = 0;     // copy, forward, backward, update
  double exposed_s = 0;  // waits for the other ranks
  double overlap = 0;    // share of the exchange that ran beside the backward pass
  std::int64_t wire_bytes = 0;
  double behind = 0;         // own time beyond the median of all ranks, as a share of that
  double wait_beyond_s = 0;  // data wait beyond the median of all ranks

  /// What the others wait for: ranks that meet in each step have the same wall time, and the
  /// slowest of them waits least.
  [[nodiscard]] double own_s() const { return data_wait_s + work_s; }
};

/// By rank; empty where not two ranks told of a step.
std::vector<RankRow> rank_rows(const RunRecord& record);

/// The rank with the longest own time; null where there are no rows.
const RankRow* slowest(std::span<const RankRow> rows);
/// The same where it is more than 10 % behind the median; null where none is.
const RankRow* straggler(std::span<const RankRow> rows);

/// rank, host (where there are several), step, data wait, work, exposed all-reduce, bytes, overlap,
/// behind. Of more than 16 ranks the eight slowest.
Table ranks_table(std::span<const RankRow> rows);
/// One sentence: who is slowest, and whether the others wait for it.
std::string ranks_verdict(std::span<const RankRow> rows);
/// result.json's `ranks`: a list, empty for one rank.
Json ranks_json(std::span<const RankRow> rows);
/// result.json's `straggler`: {rank, host, behind}; null where there is none.
Json straggler_json(std::span<const RankRow> rows);

/// A column of ranks.csv with seconds or a share, or with a count.
struct RankColumn {
  const char* name;
  double events::RankEpoch::*number = nullptr;
  std::int64_t events::RankEpoch::*count = nullptr;
};
/// The columns of ranks.csv between `epoch`, `rank` and `bucket_bytes`.
std::span<const RankColumn> rank_columns();
/// The row of ranks.csv.
std::vector<CsvField> rank_fields(const events::RankEpoch& epoch);

}  // namespace trainctl::report
