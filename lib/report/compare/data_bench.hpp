#pragma once

#include "report/text/table.hpp"

namespace trainctl::report {

/// One measurement of a loader, made in a separate process.
struct LoaderTrial {
  double samples_per_s = 0;
  double cpu_s_per_1k = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  double rss_mb = 0;
  std::string digest;  // of the first epoch
};

/// One number of workers and its repeats.
struct LoaderRow {
  int workers = 0;
  std::vector<LoaderTrial> trials;
  double limit_samples_per_s = 0;  // for this many workers
  std::string why = {};            // why `auto` chose this number; empty: it was requested
};

/// The measurements of `data bench` for each number of workers.
struct DataBench {
  std::string config;
  std::string limit_name;
  std::vector<LoaderRow> rows;
};

/// Returns a table with one row per number of workers; its batches are "as the first" or "DIFFER".
Table data_bench_table(const DataBench& bench);
/// Returns lines below the table that say what was measured and what the limit is.
std::string data_bench_notes(const DataBench& bench);
/// Returns a document with schema "trainctl.data_bench/2".
Json data_bench_document(const DataBench& bench);

}  // namespace trainctl::report
