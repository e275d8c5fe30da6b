#include "compare_gate.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/compare/bench_junit.hpp"
#include "study/bench/baseline.hpp"

#include <algorithm>

namespace trainctl::app {
namespace {

std::vector<report::Condition> parsed_for(const CompareConditions& conditions,
                                          const report::Compared& compared,
                                          const std::vector<std::string>& metrics) {
  std::vector<report::Condition> parsed = report::parse_conditions(conditions.text, metrics);
  const std::vector<std::string> apart = report::machines_apart(compared);
  const auto speed = std::ranges::find_if(parsed, report::is_of_machine);
  ENSURE(config, apart.empty() || conditions.force || speed == parsed.end(),
         "--fail-on {}: {}; leave it out, or add --force", printable(speed->text),
         printable(apart.front()));
  return parsed;
}

}  // namespace

CompareGate judge_runs(const CompareConditions& conditions, const report::Compared& runs) {
  ENSURE(config, runs.groups.size() > 1,
         "--fail-on compares with the first group of runs, and there is no other");
  const auto parsed = parsed_for(conditions, runs, report::gate_metrics(runs));
  const std::vector<report::Contest> contests = report::contests_of(runs);
  CompareGate gate{.findings = report::judge(parsed, contests), .notes = {}};
  gate.notes = report::gate_notes(gate.findings, report::Pairing::interleaved);
  if (std::ranges::find(contests, report::Pairing::apart, &report::Contest::pairing) !=
      contests.end())
    gate.notes += "Groups that have not the same seeds are compared without pairs (Welch).\n";
  return gate;
}

CompareGate judge_benches(const CompareConditions& conditions, const report::Compared& benches,
                          const std::vector<std::string>& files) {
  ENSURE(config, files.size() > 1, "--fail-on compares with the first bench: name another one");
  std::vector<report::Baseline> saved;
  for (const std::string& file : files) saved.push_back(study::load_baseline(file));
  const auto parsed = parsed_for(conditions, benches, report::gate_metrics(saved));
  CompareGate gate{.findings = report::judge(parsed, report::contests_of(saved)), .notes = {}};
  gate.notes = report::gate_notes(gate.findings, report::Pairing::apart);
  return gate;
}

std::string compare_junit(const std::optional<report::LossComparison>& losses,
                          const std::string& first, const std::optional<CompareGate>& gate) {
  std::vector<report::JunitCase> cases;
  if (losses) {
    report::JunitCase equal{.group = "compare", .name = "equal losses"};
    if (losses->difference) {
      equal.result = report::CaseResult::failed;
      equal.message = "the losses differ at " + report::to_text(*losses->difference, first);
    }
    cases.push_back(std::move(equal));
  }
  if (gate) {
    for (report::JunitCase& one : report::bench_cases({}, gate->findings, "compare"))
      cases.push_back(std::move(one));
  }
  return report::junit_text("trainctl compare", cases);
}

}  // namespace trainctl::app
