#include "report/compare/bench.hpp"

#include "report/invented.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

#include <cmath>

using namespace trainctl;
using namespace trainctl::report;

namespace {

Trial trial(double total_s, std::vector<double> losses = {0.5, 0.25}, std::string digest = "d1") {
  return {.total_s = total_s,
          .startup_s = 1,
          .epoch_s = {total_s / 2, total_s / 4},
          .samples_per_s = 1000 / total_s,
          .losses = std::move(losses),
          .data_digest = std::move(digest)};
}

std::vector<BenchRow> three_rows() {
  return {{"num_workers=0", {{"loader.num_workers", "0"}}, {trial(10), trial(12), trial(11)}},
          {"num_workers=4", {{"loader.num_workers", "4"}}, {trial(5), trial(6), trial(5)}},
          {"batch_size=128",
           {{"loader.batch_size", "128"}},
           {trial(8, {0.5, 0.3}, "d2"), trial(8, {0.5, 0.3}, "d2"), trial(8, {0.5, 0.3}, "d2")}}};
}

}  // namespace

TEST_CASE("speedup: the result is the geometric mean of paired ratios with Student's interval") {
  const double base[] = {10, 20, 30};
  const double other[] = {5, 10, 10};
  const Speedup result = speedup(base, other);
  CHECK(*result.value == Approx(std::cbrt(12.0)));
  CHECK(result.pairs == 3);
  REQUIRE(result.ci95);
  CHECK(result.ci95->low == Approx(1.27989).epsilon(1e-5));
  CHECK(result.ci95->high == Approx(4.09525).epsilon(1e-5));
}

TEST_CASE(
    "speedup: the interval is reproducible, contains the value and is exact for equal ratios") {
  const double base[] = {10, 11, 9, 10.5, 9.5};
  const double other[] = {5, 5, 5, 5, 5};
  const Speedup a = speedup(base, other);
  const Speedup b = speedup(base, other);
  REQUIRE((a.ci95 && b.ci95));
  CHECK(a.ci95->low == b.ci95->low);
  CHECK(a.ci95->low <= *a.value);
  CHECK(a.ci95->high >= *a.value);
  CHECK(a.ci95->low >= 1.75);
  CHECK(a.ci95->high <= 2.3);
  const Speedup self = speedup(base, base);
  CHECK(self.ci95->low == 1);
  CHECK(self.ci95->high == 1);
}

TEST_CASE("speedup: needs a baseline, and the interval needs three pairs") {
  const double times[] = {4, 2};
  CHECK_FALSE(speedup({}, times).value);
  CHECK_FALSE(speedup(times, {}).value);
  CHECK(speedup(times, times).value == 1);
  CHECK_FALSE(speedup(times, times).ci95);
}

TEST_CASE("speedup: a pair with an invalid time is skipped") {
  const double base[] = {10, 10, 10, std::nan("")};
  const double other[] = {0, 5, -1, 5};
  const Speedup result = speedup(base, other);
  CHECK(*result.value == Approx(2));
  CHECK(result.pairs == 1);
  const double zeros[] = {0, 0};
  CHECK_FALSE(speedup(base, zeros).value);
}

TEST_CASE("bench: the table has totals, speedups over the first row, losses and identity") {
  const auto rows = three_rows();
  check_golden("report/bench.txt",
               to_text(bench_table(rows), {.glyphs = Glyphs::unicode}) + bench_notes(rows));
  check_golden("report/bench.md", to_markdown(bench_table(rows)));
  check_golden("report/bench.json",
               to_pretty(bench_document(rows, {.config = "mnist.yaml"})) + "\n");
}

TEST_CASE("bench: a row is identical only if every repeat has the first row's batches and losses") {
  auto rows = three_rows();
  rows[1].trials[2].losses[1] = 0.25000000000000006;
  auto summaries = summarize(rows);
  CHECK(summaries[0].same_losses == true);
  CHECK(summaries[1].same_losses == false);
  CHECK(summaries[1].same_batches == true);
  CHECK(summaries[2].same_batches == false);
  rows[1].trials[0].data_digest.clear();
  CHECK_FALSE(summarize(rows)[1].same_batches.has_value());
  CHECK(bench_document(rows, {.config = "x"})["rows"][1]["identical"] == false);
}

TEST_CASE("bench: losses that are NaN in the same epochs are equal") {
  const std::vector<BenchRow> rows{{"a", {}, {trial(1, {0.5, std::nan("")})}},
                                   {"b", {}, {trial(1, {0.5, std::nan("")})}}};
  CHECK(summarize(rows)[1].same_losses == true);
  CHECK(bench_document(rows, {.config = "x"})["rows"][1]["loss"][1] == "nan");
}

TEST_CASE("bench: an empty bench is rendered as text and JSON") {
  CHECK(bench_document({}, {.config = "x"})["rows"].empty());
  const std::vector<BenchRow> rows{{"a", {}, {}}, {"b", {}, {}}};
  CHECK_THAT(to_text(bench_table(rows), {}), Contains("-"));
  CHECK(bench_document(rows, {.config = "x"})["rows"][1]["speedup"]["value"].is_null());
}

TEST_CASE("bench: the notes mention few repeats and a single epoch") {
  auto rows = three_rows();
  CHECK_THAT(bench_notes(rows), Contains("with a 95 % confidence interval") &&
                                    Contains("without the first epoch of a run"));
  for (auto& row : rows) row.trials.resize(1);
  rows[0].trials[0].epoch_s.resize(1);
  CHECK_THAT(bench_notes(rows),
             Contains("; an interval needs at least 3 repeats") && Contains("includes warm-up"));
  CHECK(bench_notes({}).empty());
}

TEST_CASE("trial_of: reads a trial from the record of a run") {
  const Trial read = trial_of(invented::run(), 9.75);
  CHECK(read.total_s == 9.75);
  CHECK(read.startup_s == 0.9);
  CHECK(read.epoch_s == std::vector<double>{2.5, 2, 2, 2});
  CHECK(read.losses.size() == 4);
  CHECK(read.data_digest == "feedfacefeedface");
  CHECK(read.samples_per_s == Approx(60000 / 1.88));
  CHECK(read.first_batch_s == 0.5);
  CHECK(read.rss_mb == 400);
  CHECK_FALSE(read.gpu_mem_mb.has_value());
  CHECK(events::find_metric(read.metrics, "val/accuracy") == Approx(0.98));
}

TEST_CASE("bench: a failed row keeps its place in the table and in JSON") {
  std::vector<BenchRow> rows = three_rows();
  rows[1].trials.clear();
  rows[1].failure = TrialFailure{6, "num_workers=4 (run 1 of 3): loss is nan\nhint: lower lr"};
  const std::string text = to_text(bench_table(rows), {});
  CHECK_THAT(text, Contains("failed (exit 6)") && !Contains("nan"));
  CHECK_THAT(bench_notes(rows),
             Contains("3 interleaved runs") && Contains("Failed: num_workers=4 (run 1 of 3)"));
  const Json document = bench_document(rows, {.config = "a.yaml"});
  CHECK(document["rows"][1]["failure"] ==
        Json({{"exit_code", 6},
              {"message", "num_workers=4 (run 1 of 3): loss is nan"},
              {"hint", "lower lr"}}));
  CHECK(document["rows"][0]["failure"].is_null());
  CHECK(document["repeats"] == 3);
}

TEST_CASE("bench: a second table has warm-up, memory and the loss of each epoch") {
  auto rows = three_rows();
  for (Trial& one : rows[0].trials) one.rss_mb = 1234;
  rows[2].trials.clear();
  check_golden("report/bench_epochs.txt", to_text(epochs_table(rows), {}));
}

TEST_CASE("bench: at most ten epochs are shown, including the first and the last") {
  std::vector<double> losses;
  for (int i = 0; i < 90; ++i) losses.push_back(1.0 / (i + 1));
  const std::vector<BenchRow> rows{{"a", {}, {trial(1, losses)}, {}}};
  const Table table = epochs_table(rows);
  REQUIRE(table.columns().size() == 15);
  CHECK(table.columns()[5].header == "loss 1");
  CHECK(table.columns()[14].header == "loss 90");
}

TEST_CASE("bench: the CSV has a line per run with settings and metrics") {
  auto rows = three_rows();
  rows[0].trials.resize(1);
  rows[1].trials.resize(1);
  rows.resize(2);
  rows[0].trials[0].metrics = {{"train/loss", 0.25}};
  rows[1].trials[0].metrics = {{"train/loss", 0.25}, {"val/loss", 0.5}};
  rows[1].trials[0].gpu_mem_mb = 8;
  CHECK(to_csv(trials_table(rows)) ==
        "technique,loader.num_workers,repeat,total_s,startup_s,first_batch_s,epoch_s,samples_per_s,"
        "rss_mb,gpu_mem_mb,exposed_s,train/loss,val/loss,data_digest\n"
        "num_workers=0,0,1,10,1,0,2.5,100,,,,0.25,,d1\n"
        "num_workers=4,4,1,5,1,0,1.25,200,,8,,0.25,0.5,d1\n");
}

TEST_CASE("bench: runs whose cores other processes used are counted in a warning and in JSON") {
  RunRecord record = invented::run();
  CHECK(trial_of(record, 9).taken == 0);
  for (events::EpochEnded& epoch : record.epochs)
    epoch.usage =
        events::Usage{.span_s = 2, .outside_cores = 0.3, .stolen_cores = 0.1, .idle_cores = 0.01};
  const Trial trial = trial_of(record, 9);
  CHECK(trial.taken == Approx(0.4));
  const std::vector<BenchRow> rows{
      {.technique = "a", .trials = {Trial{.total_s = 1}, trial}, .failure = {}}};
  CHECK_THAT(contention_warning(rows), Contains("up to 40 % of the cores during 1 of 2 runs"));
  const Json document = bench_document(rows, {});
  CHECK(document["rows"][0]["trials"][1]["taken_cores"].get<double>() == Approx(0.4));
  const std::vector<BenchRow> quiet{{.technique = "a", .trials = {Trial{.total_s = 1}}}};
  CHECK(contention_warning(quiet).empty());
}
