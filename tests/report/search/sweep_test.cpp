#include "report/search/sweep.hpp"

#include "report/html/sweep_page.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

using namespace trainctl;
using namespace trainctl::report;

namespace {

SweepRun invented_run(std::size_t group, std::uint64_t seed, double value) {
  constexpr std::array kRates{"0.1", "0.01", "0.001", "1"};
  SweepRun run;
  run.id = fmt::format("{:04}", 3 * group + seed + 1);
  run.group = group;
  run.seed = seed;
  run.overrides = {{"optimizer.lr", kRates.at(group)}, {"model.hidden", "[32]"}};
  run.status = SweepStatus::ok;
  run.exit_code = 0;
  run.metrics = {{"train/loss", 0.25}, {"val/accuracy", value - 0.0625}};
  run.value = value;
  run.run_dir = "runs/sweep/digits/runs/" + run.id;
  run.epochs = 3;
  run.wall_s = 1.5;
  return run;
}

Sweep empty_sweep() {
  Sweep sweep;
  sweep.config = "digits.yaml";
  sweep.folder = "runs/sweep/digits";
  sweep.kind = "grid";
  sweep.monitor = "val/accuracy";
  sweep.better = Better::higher;
  return sweep;
}

/// Returns four settings with three seeds each: the best one, one that is tied with it, one that is
/// clearly worse, and one with a failed run.
Sweep four_settings() {
  Sweep sweep = empty_sweep();
  for (const double value : {0.90, 0.91, 0.92})
    sweep.runs.push_back(invented_run(0, sweep.runs.size() % 3, value));
  for (const double value : {0.89, 0.91, 0.90})
    sweep.runs.push_back(invented_run(1, sweep.runs.size() % 3, value));
  for (const double value : {0.50, 0.52, 0.51})
    sweep.runs.push_back(invented_run(2, sweep.runs.size() % 3, value));
  for (const double value : {0.1, 0.3, 0.2})
    sweep.runs.push_back(invented_run(3, sweep.runs.size() % 3, value));
  SweepRun& failed = sweep.runs.back();
  failed.status = SweepStatus::failed;
  failed.exit_code = 6;
  failed.message = "the training loss is not finite";
  failed.value.reset();
  return sweep;
}

std::string order_of(const std::vector<SweepRow>& rows) {
  std::string text;
  for (const SweepRow& row : rows) text += fmt::format("{} ", row.group);
  return text;
}

}  // namespace

TEST_CASE("sweep: the table ranks settings and marks ties") {
  const Sweep sweep = four_settings();
  const auto rows = sweep_rows(sweep);
  check_golden("report/sweep.txt",
               to_text(sweep_table(sweep, rows), {}) + sweep_notes(sweep, rows));
  CHECK(rows[1].tied == true);
  CHECK(rows[2].tied == false);
  CHECK_FALSE(rows[3].tied);
}

TEST_CASE("sweep: differences are paired by seed in any order") {
  Sweep sweep = four_settings();
  std::swap(sweep.runs[3], sweep.runs[5]);
  const auto rows = sweep_rows(sweep);
  REQUIRE(rows[1].difference.ci95);
  CHECK(rows[1].difference.mean == Approx(-0.01));
  CHECK(rows[1].difference.ci95->low == Approx(-0.0348414).epsilon(1e-4));
  sweep.runs[3].value.reset();
  CHECK(sweep_rows(sweep)[1].difference.count == 2);
}

TEST_CASE("sweep: a lower value is better for a loss, and the first setting may be the reference") {
  Sweep sweep = four_settings();
  sweep.better = Better::lower;
  CHECK(order_of(sweep_rows(sweep)) == "2 1 0 3 ");
  sweep.against = Against::first;
  const auto rows = sweep_rows(sweep);
  CHECK(rows[2].is_reference);
  CHECK(rows[0].difference.mean == Approx(-0.4));
}

TEST_CASE("sweep: incomplete runs are listed after complete ones, the longest first") {
  Sweep sweep = empty_sweep();
  sweep.prunes = true;
  for (const std::size_t group : {0U, 1U, 2U, 3U})
    sweep.runs.push_back(invented_run(group, 0, 0.9 + 0.01 * static_cast<double>(group)));
  for (const std::size_t cut : {1U, 2U, 3U}) {
    sweep.runs[cut].status = SweepStatus::pruned;
    sweep.runs[cut].epochs = cut == 1 ? 2 : 1;
    sweep.runs[cut].pruned_at = sweep.runs[cut].epochs;
  }
  const auto rows = sweep_rows(sweep);
  CHECK(order_of(rows) == "0 1 3 2 ");
  CHECK(rows[0].is_reference);
  CHECK_FALSE(rows[1].difference.mean);
  CHECK_THAT(to_text(sweep_table(sweep, rows), {}), Contains("pruned at epoch 2"));
}

TEST_CASE("sweep: one seed gives no interval, and the notes say so") {
  Sweep sweep = empty_sweep();
  sweep.runs = {invented_run(0, 7, 0.9), invented_run(1, 7, 0.8)};
  const auto rows = sweep_rows(sweep);
  CHECK_FALSE(rows[1].tied);
  CHECK(rows[1].difference.mean == Approx(-0.1));
  CHECK_THAT(sweep_notes(sweep, rows), Contains("add --seeds 0,1,2"));
}

TEST_CASE("sweep: JSON has the runs and their summary") {
  const Sweep sweep = four_settings();
  const Json document = sweep_document(sweep, 5);
  CHECK(document["schema"] == "trainctl.sweep/2");
  CHECK(document["exit_code"] == 5);
  CHECK(document["mode"] == "max");
  CHECK(document["tied"] == 1);
  CHECK(document["counts"]["ok"] == 11);
  CHECK(document["counts"]["pending"] == 0);
  const Json& run = document["runs"][4];
  for (const char* key : {"id", "overrides", "status", "exit_code", "metrics", "run_dir", "seed",
                          "epochs", "wall_s", "pruned_at"})
    CHECK(run.contains(key));
  CHECK(run["overrides"]["optimizer.lr"] == 0.01);
  CHECK(run["overrides"]["model.hidden"] == Json::array({32}));
  CHECK(run["metrics"]["train/loss"] == 0.25);
  CHECK(run["pruned_at"].is_null());
  const Json& row = document["summary"][1];
  CHECK(row["rank"] == 2);
  CHECK(row["runs"] == Json::array({"0004", "0005", "0006"}));
  CHECK(row["value"]["count"] == 3);
  CHECK(row["difference"]["ci95"].size() == 2);
  CHECK(row["tied"] == true);
  CHECK(document["summary"][3]["status"] == "failed");
}

TEST_CASE("sweep: YAML values that are not JSON stay strings") {
  Sweep sweep = empty_sweep();
  sweep.runs = {invented_run(0, 0, 0.5)};
  sweep.runs[0].overrides = {{"optimizer.type", "sgd"}, {"trainer.precision", "32-true"}};
  const Json document = sweep_document(sweep, 0);
  CHECK(document["runs"][0]["overrides"]["optimizer.type"] == "sgd");
  CHECK(document["runs"][0]["overrides"]["trainer.precision"] == "32-true");
}

TEST_CASE("sweep: the CSV has a line per run with every metric") {
  const std::string csv = to_csv(sweep_results(four_settings()));
  CHECK_THAT(csv, StartsWith("id,status,exit_code,seed,optimizer.lr,model.hidden,best "
                             "val/accuracy,train/loss,val/accuracy,epochs,wall_s,pruned_at,"
                             "run_dir\n0001,ok,0,0,0.1,[32],0.9,0.25,0.8375,3,1.5,,"
                             "runs/sweep/digits/runs/0001\n"));
  CHECK_THAT(csv, Contains("\n0012,failed,6,2,1,[32],,0.25,0.1375,3,1.5,,"));
}

TEST_CASE("sweep page: settings have the same order and values as the sweep") {
  const std::string page = sweep_page(sweep_document(four_settings(), 5), {}, "digits");
  CHECK_THAT(page, Contains("best val/accuracy") && Contains("0.9100") &&
                       Contains("mean val/accuracy") && Contains("reference"));
  CHECK_THAT(page, Contains(">optimizer.lr=0.01</td>") && !Contains("model.hidden=[32]</td>"));
  CHECK_THAT(page,
             Contains(", may be 0") && Contains("0001 0002 0003") && Contains("failed (exit 6)"));
  CHECK(page.find("{&quot;") == std::string::npos);  // its cells do not contain JSON
  CHECK(page.find("{\"mean") == std::string::npos);
  CHECK_THAT(page, Contains("val/accuracy 0.9200") && !Contains("val/accuracy 0.8575"));
}

TEST_CASE("sweep page: runs are sorted by their best epochs") {
  Sweep sweep = empty_sweep();
  for (const double value : {0.7, 0.9})
    sweep.runs.push_back(invented_run(0, sweep.runs.size(), value));
  sweep.runs[0].metrics = {{"val/accuracy", 0.99}};  // the last epoch does not count
  const std::string page = sweep_page(sweep_document(sweep, 0), {}, "digits");
  const std::string runs = page.substr(page.rfind("Runs, the best first"));
  const std::size_t best = runs.find("0002");
  REQUIRE(best != std::string::npos);
  CHECK(best < runs.find("0001"));
}

namespace {

/// Returns two settings with five folds each, as runs of one seed or of several.
Sweep five_folds(std::uint64_t seeds) {
  Sweep sweep = empty_sweep();
  for (const std::size_t group : {0U, 1U}) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      for (int fold = 0; fold < 5; ++fold) {
        // The seeds of a fold differ by values that cancel in their mean.
        const double noise = seeds > 1 ? 0.02 * static_cast<double>(seed) - 0.01 : 0;
        sweep.runs.push_back(invented_run(
            group, seed, 0.90 - 0.1 * static_cast<double>(group) + 0.01 * fold + noise));
        sweep.runs.back().fold = fold;
      }
    }
  }
  return sweep;
}

}  // namespace

TEST_CASE("sweep: a cross-validation shows each fold, the mean, the deviation and the interval") {
  const Sweep sweep = five_folds(1);
  const auto rows = sweep_rows(sweep);
  REQUIRE(rows.size() == 2);
  // numpy: std(ddof=1) = 0.0158114; scipy: t.ppf(0.975, 4) * 0.0158114 / sqrt(5) = 0.0196324.
  CHECK(rows[0].value.mean == Approx(0.92));
  CHECK(rows[0].value.deviation == Approx(0.0158114).epsilon(1e-5));
  CHECK(rows[0].value.ci95->low == Approx(0.92 - 0.0196324).epsilon(1e-5));
  CHECK(rows[0].value.ci95->high == Approx(0.92 + 0.0196324).epsilon(1e-5));
  CHECK(rows[0].folds.size() == 5);
  CHECK(rows[0].folds[3] == Approx(0.93));
  CHECK(rows[1].difference.count == 5);
  CHECK(rows[1].difference.mean == Approx(-0.1));
  check_golden("report/sweep_folds.txt",
               to_text(sweep_table(sweep, rows), {}) + sweep_notes(sweep, rows));
  const Json document = sweep_document(sweep, 0);
  CHECK(document["folds"] == 5);
  CHECK(document["runs"][4]["fold"] == 4);
  CHECK(document["summary"][0]["folds"].size() == 5);
  CHECK(document["summary"][0]["value"]["deviation"].get<double>() == Approx(0.0158114));
  const std::string csv = to_csv(sweep_results(sweep));
  CHECK_THAT(csv, StartsWith("id,status,exit_code,seed,fold,"));
  const std::string page = sweep_page(document, {}, "folds");
  CHECK_THAT(page, Contains("deviation") && Contains("fold 4") && Contains("0.0158"));
}

TEST_CASE("sweep: the values of a fold are averaged over its seeds before the interval") {
  const auto one = sweep_rows(five_folds(1));
  const auto two = sweep_rows(five_folds(2));
  CHECK(two[0].run_ids.size() == 10);
  CHECK(two[0].value.count == 5);
  CHECK(two[0].value.mean == Approx(*one[0].value.mean));
  CHECK(two[0].value.deviation == Approx(*one[0].value.deviation));
}

TEST_CASE("sweep: a fold that failed has no value, and many folds have no columns") {
  Sweep sweep = five_folds(1);
  sweep.runs[2].status = SweepStatus::failed;
  sweep.runs[2].value.reset();
  const auto rows = sweep_rows(sweep);
  CHECK(rows[1].status == SweepStatus::failed);
  CHECK(rows[1].value.count == 4);
  CHECK_FALSE(rows[1].folds[2]);
  CHECK(sweep_document(sweep, 5)["summary"][1]["folds"][2].is_null());
  sweep.runs.back().fold = 11;
  CHECK_FALSE(Contains("fold 0").match(to_text(sweep_table(sweep, sweep_rows(sweep)), {})));
}
