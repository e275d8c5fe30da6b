#pragma once

#include "base/json.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {

/// What one measurement of a loader gave, in a process of its own.
struct LoaderTrial {
  double samples_per_s = 0;
  double cpu_s_per_1k = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  double rss_mb = 0;
  std::string digest;  // of the first epoch
};

/// One worker count and its repeats.
struct LoaderRow {
  int workers = 0;
  std::vector<LoaderTrial> trials;
  double limit_samples_per_s = 0;  // for this many workers
  std::string why = {};            // `auto` chose so many; empty where they were asked for
};

struct DataBench {
  std::string config;
  std::string limit_name;
  std::vector<LoaderRow> rows;
};

/// One line for each row, "as the first" or "DIFFER" for its batches.
Table data_bench_table(const DataBench& bench);
/// The lines below the table: what was measured and what the limit is.
std::string data_bench_notes(const DataBench& bench);
/// Schema "trainctl.data_bench/1".
Json data_bench_document(const DataBench& bench);

}  // namespace trainctl::report
