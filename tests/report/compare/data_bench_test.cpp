#include "report/compare/data_bench.hpp"

#include "support/catch.hpp"
#include "support/golden.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

LoaderTrial loader_trial(double samples_per_s, std::string digest = "00000000000000d1") {
  return {.samples_per_s = samples_per_s,
          .cpu_s_per_1k = 0.5,
          .p50_ms = 1.5,
          .p99_ms = 4,
          .rss_mb = 123,
          .digest = std::move(digest)};
}

DataBench two_rows() {
  return {
      "w3.yaml",
      "decode",
      {{0, {loader_trial(1000), loader_trial(1200), loader_trial(1100)}, 1250},
       {2, {loader_trial(2000), loader_trial(2100), loader_trial(1900)}, 2500, "probe: enough"}}};
}

}  // namespace

TEST_CASE("data bench: the table has rates, CPU, intervals, memory and the share of the limit") {
  const DataBench bench = two_rows();
  check_golden("report/data_bench.txt",
               to_text(data_bench_table(bench), {}) + data_bench_notes(bench));
  check_golden("report/data_bench.json", to_pretty(data_bench_document(bench)) + "\n");
}

TEST_CASE("data bench: a row with batches that differ from the first row's is marked") {
  DataBench bench = two_rows();
  bench.rows[1].trials[2].digest = "00000000000000d2";
  CHECK_THAT(to_text(data_bench_table(bench), {}), Contains("00000000000000d1 DIFFER"));
  CHECK(data_bench_document(bench)["rows"][1]["identical"] == false);
}

TEST_CASE("data bench: the notes explain the limit") {
  DataBench bench = two_rows();
  CHECK_THAT(data_bench_notes(bench), Contains("only decodes, times the number"));
  bench.limit_name = "gather";
  CHECK_THAT(data_bench_notes(bench), Contains("one thread copies the rows"));
  bench.limit_name = "transforms";
  CHECK_THAT(data_bench_notes(bench), Contains("only transforms"));
}
