#include "report/compare/data_bench.hpp"

#include "base/numbers.hpp"

namespace trainctl::report {
namespace {

std::vector<double> each(const LoaderRow& row, double LoaderTrial::*value) {
  std::vector<double> values;
  for (const LoaderTrial& trial : row.trials) values.push_back(trial.*value);
  return values;
}

double middle(const LoaderRow& row, double LoaderTrial::*value) { return median(each(row, value)); }

Quartiles rate(const LoaderRow& row) { return quartiles(each(row, &LoaderTrial::samples_per_s)); }

const std::string& digest_of(const LoaderRow& row) { return row.trials.front().digest; }

// The loader guarantees bitwise-equal batches, so a row that differs is reported.
bool same_batches(const DataBench& bench, const LoaderRow& row) {
  const std::string& wanted = digest_of(bench.rows.front());
  return std::ranges::all_of(row.trials,
                             [&](const LoaderTrial& trial) { return trial.digest == wanted; });
}

Json row_json(const DataBench& bench, const LoaderRow& row) {
  return {{"workers", row.workers},
          {"auto", or_null(row.why)},
          {"samples_per_s", json_value(rate(row))},
          {"cpu_s_per_1k", json_number(middle(row, &LoaderTrial::cpu_s_per_1k))},
          {"p50_ms", json_number(middle(row, &LoaderTrial::p50_ms))},
          {"p99_ms", json_number(middle(row, &LoaderTrial::p99_ms))},
          {"rss_mb", json_number(middle(row, &LoaderTrial::rss_mb))},
          {"digest", digest_of(row)},
          {"identical", same_batches(bench, row)},
          {"limit",
           {{"name", bench.limit_name}, {"samples_per_s", json_number(row.limit_samples_per_s)}}},
          {"repeats", json_value(each(row, &LoaderTrial::samples_per_s))}};
}

}  // namespace

Table data_bench_table(const DataBench& bench) {
  Table table({"workers", "samples/s [quartiles]", "per CPU second", "p50 ms", "p99 ms", "peak MB",
               "limit", "of limit", left("hash of batches")});
  for (const LoaderRow& row : bench.rows) {
    const Quartiles samples_per_s = rate(row);
    table.add({fmt::format("{}", row.workers),
               fmt::format("{} [{}, {}]", rate_text(samples_per_s.median),
                           rate_text(samples_per_s.q1), rate_text(samples_per_s.q3)),
               rate_text(1000 / middle(row, &LoaderTrial::cpu_s_per_1k)),
               metric_text(middle(row, &LoaderTrial::p50_ms)),
               metric_text(middle(row, &LoaderTrial::p99_ms)),
               rate_text(middle(row, &LoaderTrial::rss_mb)), rate_text(row.limit_samples_per_s),
               percent_text(samples_per_s.median / row.limit_samples_per_s) + " %",
               same_batches(bench, row) ? digest_of(row) : digest_of(row) + " DIFFER"});
  }
  return table;
}

std::string data_bench_notes(const DataBench& bench) {
  const std::size_t repeats = bench.rows.front().trials.size();
  std::string text = fmt::format(
      "{} interleaved measurement{} per row, each in a new process after a warm-up epoch. Batches "
      "are loaded, but not trained on. p50 and p99: median and 99th percentile of the time between "
      "two batches. Per CPU second: samples divided by the CPU seconds of the process. Peak MB: "
      "memory of the process. ",
      repeats, plural(repeats));
  if (bench.limit_name == "gather") {
    text += "The limit is the rate at which one thread copies the rows of the batches.\n";
  } else if (bench.limit_name == "decode") {
    text +=
        "The limit is the rate of one thread that only decodes, times the number of parallel "
        "threads.\n";
  } else {
    text +=
        "The limit is the rate of one thread that only transforms, times the number of parallel "
        "threads.\n";
  }
  for (const LoaderRow& row : bench.rows) {
    if (!row.why.empty()) text += fmt::format("auto chose {} workers: {}\n", row.workers, row.why);
  }
  return text;
}

Json data_bench_document(const DataBench& bench) {
  const auto rows =
      json_list(bench.rows, [&](const LoaderRow& row) { return row_json(bench, row); });
  return {{"schema", "trainctl.data_bench/2"},
          {"config", bench.config},
          {"repeats", bench.rows.front().trials.size()},
          {"rows", rows}};
}

}  // namespace trainctl::report
