#include "base/error.hpp"
#include "report/compare/comparison.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <utility>

using namespace trainctl;
using namespace trainctl::report;

namespace {

Group group(std::string label, std::vector<Measures> members) {
  return {.label = std::move(label), .runs = {}, .members = std::move(members)};
}

/// Returns two groups of three seeds in different orders, whose accuracies differ more between the
/// seeds than between the groups.
RunComparison seeds(double change) {
  const auto of = [](const char* seed, double accuracy, double wall_s) {
    return Measures{seed, {{"val/accuracy", accuracy}, {"wall_s", wall_s}}};
  };
  return {.kind = "runs",
          .groups = {group("a", {of("1", 0.80, 10), of("2", 0.90, 11), of("3", 0.85, 12)}),
                     group("b", {of("3", 0.8501 + change, 12), of("1", 0.80 + change, 10),
                                 of("2", 0.8999 + change, 11)})}};
}

std::vector<Finding> findings_for(const std::string& text, const RunComparison& runs) {
  return evaluate_conditions(parse_conditions(text, gate_metrics(runs)), gate_comparisons(runs));
}

Baseline bench(const std::string& path, double seconds) {
  Baseline bench{.path = path, .machine = {{"cpu", "Zen"}}, .config_resolved = {}, .rows = {}};
  for (const char* workers : {"0", "4"}) {
    const std::vector<double> times{seconds, seconds * 1.001, seconds * 0.999};
    bench.rows.push_back({.technique = std::string("num_workers=") + workers,
                          .settings = {{"loader.num_workers", workers}},
                          .samples = {{"total_s", times}, {"train/loss", {0.5, 0.5, 0.5}}}});
  }
  return bench;
}

}  // namespace

TEST_CASE("compare gate: groups with the same seeds are paired in any order") {
  const Finding fails = findings_for("val/accuracy<-0.5pt", seeds(-0.02)).front();
  CHECK(fails.verdict == Verdict::fail);
  CHECK(*fails.change == Approx(-2));
  CHECK(fails.technique == "b");
  CHECK(fails.against == "'a'");
  CHECK(gate_code(findings_for("val/accuracy<-0.5pt", seeds(0))) == 0);
}

TEST_CASE(
    "compare gate: groups of different seeds are unpaired, and variance hides a small change") {
  RunComparison runs = seeds(-0.02);
  runs.groups[1].members[0].seed = "77";
  CHECK(gate_comparisons(runs).front().pairing == Pairing::unpaired);
  CHECK(gate_code(findings_for("val/accuracy<-0.5pt", runs)) == 4);
  for (Measures& member : runs.groups[0].members) member.seed.clear();
  runs.groups[1].members = runs.groups[0].members;
  CHECK(gate_comparisons(runs).front().pairing == Pairing::unpaired);
}

TEST_CASE("compare gate: two single runs differ only in numbers without variance") {
  const auto single = [](double loss) { return Measures{"1", {{"val/loss", loss}}}; };
  const RunComparison same{.kind = "runs",
                           .groups = {group("a", {single(1)}), group("b", {single(1)})}};
  CHECK(gate_code(findings_for("val/loss>+1%", same)) == 0);
  const RunComparison other{.kind = "runs",
                            .groups = {group("a", {single(1)}), group("b", {single(2)})}};
  CHECK(gate_code(findings_for("val/loss>+1%", other)) == 4);
}

TEST_CASE("compare gate: a number that one run does not report is inconclusive") {
  RunComparison runs = seeds(0);
  runs.groups[1].members[0].values.clear();
  const Finding open = findings_for("val/accuracy<-0.5pt", runs).front();
  CHECK(open.verdict == Verdict::inconclusive);
  CHECK_THAT(open.why, Contains("is not reported by every run"));
}

TEST_CASE("compare gate: conditions may name metrics of the runs, and total_s for wall time") {
  const auto names = gate_metrics(seeds(0));
  CHECK(std::ranges::count(names, "val/accuracy") == 1);
  CHECK(gate_comparisons(seeds(0)).front().now.at("total_s") == std::vector<double>{10, 11, 12});
  CHECK_THROWS_WITH(parse_conditions("val/acuracy<-1pt", names), Contains("val/accuracy"));
}

TEST_CASE("compare gate: saved benches are compared setting by setting") {
  const std::vector<Baseline> slower{bench("a.json", 10), bench("b.json", 11)};
  const auto conditions = parse_conditions("total_s>+5%, train/loss>+1%", gate_metrics(slower));
  const std::vector<Finding> findings = evaluate_conditions(conditions, gate_comparisons(slower));
  REQUIRE(findings.size() == 4);
  CHECK(findings[0].verdict == Verdict::fail);
  CHECK(findings[0].technique == "num_workers=0 of b.json");
  CHECK(findings[1].verdict == Verdict::pass);
  CHECK(findings[2].against == "'num_workers=4' of a.json");
}

TEST_CASE("compare gate: benches without a common setting are an error") {
  std::vector<Baseline> benches{bench("a.json", 10), bench("b.json", 10)};
  for (BaselineRow& row : benches[1].rows) row.settings = {{"trainer.devices", "2"}};
  CHECK_THROWS_WITH(gate_comparisons(benches), Contains("cannot compare a.json"));
}

namespace {

RunFiles run_on(const char* cpu, int cores) {
  RunFiles run;
  run.manifest = {{"hardware",
                   {{"cpu", cpu},
                    {"cores", cores},
                    {"memory_bytes", std::int64_t{8} << 30},
                    {"gpu_models", Json::array()}}}};
  return run;
}

Group runs_on(std::string label, std::vector<RunFiles> runs) {
  return {.label = std::move(label), .runs = std::move(runs), .members = {}};
}

}  // namespace

TEST_CASE("machine_warnings: groups of runs on different hardware are named with the difference") {
  RunComparison runs{
      .kind = "runs",
      .groups = {runs_on("a", {run_on("Zen", 8)}), runs_on("b", {run_on("Zen", 8)})}};
  CHECK(machine_warnings(runs).empty());
  runs.groups.push_back(runs_on("c", {run_on("Zen", 8), run_on("Zen", 2), run_on("Xeon", 4)}));
  REQUIRE(machine_warnings(runs).size() == 1);  // each group has one warning
  CHECK(machine_warnings(runs)[0] ==
        "the speeds of 'a' and 'c' are not comparable: cores: 8 in 'a', 2 in 'c'");
  runs.groups[0].runs.push_back(run_on("Xeon", 8));
  REQUIRE(machine_warnings(runs).size() == 2);
  CHECK_THAT(machine_warnings(runs)[0], Contains("in another run of 'a'"));
  runs.groups[1].runs[0].manifest = nullptr;
  CHECK_THAT(machine_warnings(runs)[1], Contains("the machine of 'b' is not recorded"));
}

TEST_CASE("machine_warnings: benches of different machines are named with the difference") {
  RunComparison benches{.kind = "benches", .groups = {group("a.json", {}), group("b.json", {})}};
  benches.groups[0].machine = {{"cpu", "Zen"}};
  benches.groups[1].machine = {{"cpu", "Zen"}};
  CHECK(machine_warnings(benches).empty());
  benches.groups[1].machine["cpu"] = "Other";
  REQUIRE(machine_warnings(benches).size() == 1);
  CHECK_THAT(machine_warnings(benches)[0], Contains("cpu: Zen in 'a.json', Other in 'b.json'"));
}

TEST_CASE("is_of_machine: true for speed, memory and usage, false for metrics") {
  const std::vector<std::string> metrics{"wall_s", "gpu_util", "val/accuracy", "epochs"};
  const auto parsed = parse_conditions(
      "samples_per_s<-2.5%, rss_mb>1%, wall_s>5%, gpu_util<-5%, val/accuracy<-1pt, epochs>1%",
      metrics);
  std::string found;
  for (const Condition& condition : parsed) found += is_of_machine(condition) ? '1' : '0';
  CHECK(found == "111100");
}
