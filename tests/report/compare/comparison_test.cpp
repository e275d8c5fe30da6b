#include "report/compare/comparison.hpp"

#include "base/error.hpp"
#include "report/html/bench_page.hpp"
#include "report/html/comparison_page.hpp"
#include "report/html/sweep_page.hpp"
#include "report/invented.hpp"
#include "report/search/sweep.hpp"
#include "report/sinks/sink.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <cmath>

using namespace trainctl;
using namespace trainctl::report;

namespace {

struct RunValues {
  int seed = 1;
  std::string lr = "0.1";
  double loss = 0.5;
};

RunFiles make_run(const fs::path& folder, const RunValues& values) {
  put_text(folder / "config.resolved.yaml", "name: digits\nseed: " + std::to_string(values.seed) +
                                                "\noptimizer:\n  lr: " + values.lr + "\n");
  const auto csv = make_csv_sink(folder, {"train/loss"});
  const auto jsonl = make_jsonl_sink(folder);
  for (int i = 0; i < 2; ++i) {
    auto epoch = invented::epoch(i);
    epoch.metrics = {{"train/loss", values.loss / (i + 1)}};
    const events::StepLogged step{
        .epoch = i, .global_step = 10 * (i + 1), .loss = values.loss, .lr = 0.1};
    for (Sink* sink : {csv.get(), jsonl.get()}) {
      sink->on_event(0, step);
      sink->on_event(0, epoch);
    }
  }
  return read_run(folder);
}

}  // namespace

TEST_CASE("paired_difference: equal differences have an interval of zero width") {
  const std::vector<double> base{1, 5, 9};
  const std::vector<double> other{1.5, 5.5, 9.5};
  const MeanDifference pairs = paired_difference(base, other);
  CHECK(pairs.difference == Approx(0.5));
  REQUIRE(pairs.ci95);
  CHECK(pairs.ci95->low == Approx(0.5));
  const MeanDifference unpaired = unpaired_difference(base, other);
  REQUIRE(unpaired.ci95);
  CHECK(unpaired.ci95->low < -5);
  CHECK_FALSE(unpaired_difference(std::span(base).first(1), other).ci95);
}

TEST_CASE("paired_difference: the interval is Student's interval of the differences") {
  // The differences are 1, 2, 3 with mean 2 and deviation 1, so the interval is 2 +- 4.302653 /
  // sqrt(3).
  const std::vector<double> base{10, 10, 10};
  const std::vector<double> other{11, 12, 13};
  const auto found = paired_difference(base, other);
  REQUIRE(found.ci95);
  CHECK(found.ci95->low == Approx(2 - 4.302653 / std::sqrt(3)).epsilon(1e-6));
  CHECK(found.ci95->high == Approx(2 + 4.302653 / std::sqrt(3)).epsilon(1e-6));
}

TEST_CASE("compare: groups with the same seeds are paired, and others are not") {
  TempFolder folder;
  std::vector<RunFiles> a;
  std::vector<RunFiles> b;
  for (int seed = 1; seed <= 3; ++seed) {
    const std::string number = std::to_string(seed);
    a.push_back(make_run(folder / ("a" + number), {.seed = seed, .loss = 0.1 * seed}));
    b.push_back(make_run(folder / ("b" + number),
                         {.seed = 4 - seed, .lr = "0.2", .loss = 0.1 * (4 - seed) + 0.02}));
  }
  RunComparison compared;
  compared.groups.push_back(group_of("a", std::move(a)));
  compared.groups.push_back(group_of("b", std::move(b)));
  const auto difference = differences_of(compared, "train/loss").front();
  REQUIRE(difference);
  CHECK(difference->paired);
  CHECK(difference->difference == Approx(0.01));  // the last epoch counts
  REQUIRE(difference->ci95);
  CHECK(difference->ci95->high == Approx(0.01));
  CHECK(values_of(compared, "train/loss")[0].size() == 3);
  CHECK(values_of(compared, "no such")[1].empty());
  compared.groups[1].members[0].seed = "77";
  CHECK_FALSE(differences_of(compared, "train/loss").front()->paired);
  const auto config = config_differences(compared);
  REQUIRE(config.size() == 1);  // both groups have the same seeds
  CHECK(config[0].key == "optimizer.lr");
  CHECK(config[0].values == std::vector<std::string>{"0.1", "0.2"});
}

TEST_CASE("compare: runs are grouped by their config without the seed") {
  TempFolder folder;
  std::vector<RunFiles> runs;
  runs.push_back(make_run(folder / "1", {.seed = 1}));
  runs.push_back(make_run(folder / "2", {.seed = 1, .lr = "0.2"}));
  runs.push_back(make_run(folder / "3", {.seed = 2}));
  const std::vector<Group> groups = grouped(std::move(runs));
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].runs.size() == 2);
  CHECK(groups[1].label == "optimizer.lr=0.2");
}

TEST_CASE("equal losses: losses are compared bitwise, and the first difference is named") {
  TempFolder folder;
  RunComparison compared;
  std::vector<RunFiles> one;
  one.push_back(make_run(folder / "a", {}));
  std::vector<RunFiles> two;
  two.push_back(make_run(folder / "b", {.seed = 2}));
  compared.groups = {group_of("a", std::move(one)), group_of("b", std::move(two))};
  CHECK(compare_losses(compared).losses == 4);
  CHECK_FALSE(compare_losses(compared).difference);
  make_run(folder / "c", {.loss = std::nextafter(0.5, 1)});
  compared.groups[1].runs[0] = read_run(folder / "c");
  const auto difference = compare_losses(compared).difference;
  REQUIRE(difference);
  CHECK(difference->step == 10);
  CHECK_FALSE(difference->of_epoch);
  CHECK_THAT(
      to_text(*difference, "a"),
      Contains("epoch 1, step 10: train/loss is 0x1p-1 (0.5) in a and 0x1.0000000000001p-1"));
}

TEST_CASE("equal losses: a hint names different numbers of threads and memory formats") {
  TempFolder folder;
  RunComparison compared;
  const auto add = [&](const char* name, double loss, const std::string& manifest) {
    make_run(folder / name, {.loss = loss});
    put_text(folder / name / "manifest.json", manifest);
    std::vector<RunFiles> runs;
    runs.push_back(read_run(folder / name));
    compared.groups.push_back(group_of(name, std::move(runs)));
  };
  add("a", 0.5, R"({"num_threads": {"value": 1}, "channels_last": {"value": true}})");
  add("b", 0.4, R"({"num_threads": {"value": 2}, "channels_last": {"value": true}})");
  const auto hint = [&] { return compare_losses(compared).difference.value().hint; };
  const std::string a = (folder / "a").string();
  const std::string b = (folder / "b").string();
  CHECK(hint() == "set equal values of trainer.num_threads (" + a + " used 1, " + b + " used 2)");
  CHECK_THAT(to_text(*compare_losses(compared).difference, "a"),
             EndsWith("\nhint: " + compare_losses(compared).difference->hint));
  compared.groups[1].runs[0].manifest["num_threads"]["value"] = 1;
  CHECK(hint().empty());
  compared.groups[1].runs[0].manifest["channels_last"]["value"] = false;
  CHECK(hint() ==
        "set equal values of trainer.channels_last (" + a + " used true, " + b + " used false)");
}

TEST_CASE("equal losses: a missing loss is a difference, and a run without losses is an error") {
  TempFolder folder;
  make_run(folder / "a", {});
  make_run(folder / "b", {});
  std::string text = golden::read(folder / "b" / "metrics.jsonl");
  put_text(folder / "b" / "metrics.jsonl", text.substr(0, text.find('\n') + 1));
  RunComparison compared;
  std::vector<RunFiles> runs;
  runs.push_back(read_run(folder / "a"));
  runs.push_back(read_run(folder / "b"));
  compared.groups = {group_of("both", std::move(runs))};
  const auto difference = compare_losses(compared).difference;
  REQUIRE(difference);
  CHECK(difference->wanted);
  CHECK_FALSE(difference->found);
  CHECK_THAT(to_text(*difference, "a"), Contains("missing in"));
  put_text(folder / "b" / "metrics.jsonl", "\n");
  CHECK_THROWS_WITH(compare_losses(compared), Contains("has no loss"));
}

TEST_CASE("compare: results are available as text, JSON and HTML page") {
  TempFolder folder;
  RunComparison compared;
  std::vector<RunFiles> one;
  one.push_back(make_run(folder / "a", {}));
  std::vector<RunFiles> two;
  two.push_back(make_run(folder / "b", {.lr = "<0.2>", .loss = 0.4}));
  compared.groups = {group_of("a", std::move(one)), group_of("<b>", std::move(two))};
  const std::string text = compare_text(compared, {});
  CHECK_THAT(text, Contains("optimizer.lr") && Contains("train/loss") && Contains("-20.0 %"));
  CHECK_THAT(text, Contains("0.5000 -> 0.2500") && Contains("forward"));
  const Json document = compare_document(compared, std::nullopt);
  CHECK(document["schema"] == "trainctl.compare/2");
  CHECK(document["config"][0]["key"] == "optimizer.lr");
  CHECK(document["metrics"][0]["name"] == "train/loss");
  REQUIRE(document["warnings"].size() == 1);  // no manifest records the machine
  CHECK(document["metrics"][0]["differences"][0]["value"].get<double>() == Approx(-0.05));
  const std::string page = comparison_page(compared);
  CHECK_THAT(page, Contains("&lt;0.2&gt;") && Contains("<h3>train/loss</h3>"));
  CHECK(page.find("<b>") == std::string::npos);
}

TEST_CASE("compare: benches are compared technique by technique") {
  const Json bench = Json::parse(
      R"({"schema":"trainctl.bench/2","machine":{"cores":8},"rows":[{"technique":"4 workers","repeats_s":[2.0,2.2],"samples_per_s":100,"steady_epoch_s":0.5,"loss":[0.3,"nan"]},7]})");
  const Group group = group_of_bench("a", bench);
  REQUIRE(group.members.size() == 2);
  CHECK(group.machine["cores"] == 8);
  CHECK(values_of({"benches", {group}}, "4 workers: total_s")[0] == std::vector<double>{2.0, 2.2});
  CHECK(values_of({"benches", {group}}, "4 workers: samples_per_s")[0].size() == 1);
  CHECK(values_of({"benches", {group}}, "4 workers: epoch_s")[0] == std::vector<double>{0.5});
}

TEST_CASE("study pages: damaged entries of a bench or sweep are tolerated") {
  CHECK_THROWS_AS(bench_page(Json::parse(R"({"schema":"trainctl.result/2"})"), "x"), Error);
  const Json bench = Json::parse(
      R"({"schema":"trainctl.bench/2","rows":[null,{"technique":"<a>","total_s":{"median":2,"q1":1,"q3":"nan"},"speedup":{"value":1.5,"ci95":[1.2,1.9]}}]})");
  CHECK_THAT(bench_page(bench, "x"),
             Contains("&lt;a&gt;") && Contains("interval 1.2000 to 1.9000"));
  const Json sweep = Json::parse(
      R"({"schema":"trainctl.sweep/2","runs":[{"id":1,"overrides":{"optimizer.lr":0.1,"model.type":"mlp"},"status":"ok","exit_code":0,"metrics":{"val/loss":0.5}},
          {"id":2,"overrides":["optimizer.lr=0.001","model.type=cnn"],"status":"failed","exit_code":6,"metrics":{"val/loss":"nan"}},[]],"summary":[{"optimizer.lr":0.1,"mean":0.5}]})");
  const std::string page = sweep_page(sweep, {}, "sweep");
  CHECK_THAT(page, Contains("best val/loss") && Contains("run 1") && Contains("failed (exit 6)"));
  CHECK(objective_of(sweep).lowest);
}

TEST_CASE("sweep page: reads the document that sweep_document writes") {
  TempFolder folder;
  Sweep sweep;
  sweep.monitor = "val/accuracy";
  sweep.better = Better::higher;
  for (std::size_t i = 0; i < 2; ++i) {
    SweepRun& run = sweep.runs.emplace_back();
    run.id = "000" + std::to_string(i + 1);
    run.group = i;
    run.overrides = {{"optimizer.lr", i == 0 ? "0.1" : "0.2"}};
    run.status = SweepStatus::ok;
    run.exit_code = 0;
    run.metrics = {{"val/accuracy", 0.5}};  // this is the last epoch
    run.value = i == 0 ? 0.75 : 0.625;      // this is the best epoch
    run.run_dir = (folder / run.id).string();
    make_run(folder / run.id, {});
  }
  const Json document = sweep_document(sweep, 0);
  CHECK(objective_of(document).metric == "val/accuracy");
  CHECK_FALSE(objective_of(document).lowest);
  const auto runs = swept_runs(document, folder.path());
  REQUIRE(runs.size() == 2);
  CHECK(runs[1].id == "0002");
  CHECK(runs[1].files.epochs.size() == 2);
  const std::string page = sweep_page(document, runs, "lr");
  CHECK_THAT(page, Contains("best val/accuracy") && Contains("0.7500") && Contains("run 0001"));
  CHECK_THAT(page, Contains("optimizer.lr=0.1") && Contains("<h3>train/loss</h3>"));
  CHECK_THAT(page, !Contains("&quot;mean&quot;"));
}

TEST_CASE("short_labels: common parent folders are removed") {
  CHECK(short_labels({"runs/a/1", "runs/b/1"}) == std::vector<std::string>{"a/1", "b/1"});
  CHECK(short_labels({"runs/a/1", "runs/a/1"}) == std::vector<std::string>{"1", "1 (2)"});
  CHECK(short_labels({"a", "b"}) == std::vector<std::string>{"a", "b"});
  CHECK(short_labels({}).empty());
}

TEST_CASE("short_labels: the label of a group lists the short label of each run") {
  CHECK(short_labels({"/x/runs/a/1,/x/runs/a/2", "/x/runs/b/1,/x/runs/b/2"}) ==
        std::vector<std::string>{"a/1,a/2", "b/1,b/2"});
  CHECK(short_labels({"a1,a2,a3", "b1,b2,b3"}) == std::vector<std::string>{"a1,a2,a3", "b1,b2,b3"});
  CHECK(short_labels({"runs/a/1,runs/a/2", "runs/a/1,runs/a/2"}) ==
        std::vector<std::string>{"1,2", "1,2 (2)"});
}
