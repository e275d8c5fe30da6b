#include "study/tune/tune.hpp"

#include "base/error.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"
#include "support/manual_clock.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using namespace trainctl;
using report::TuneChanges;
using report::TuneDecision;
using report::TuneStopReason;
using study::TuneResult;
using study::TuneSample;
using study::TuneScope;

namespace {

std::string value_of(const TuneChanges& changes, const std::string& key) {
  const auto found = std::ranges::find(changes, key, &report::TuneChange::key);
  return found == changes.end() ? "" : found->value;
}

/// A machine on which each run takes `seconds`, with a clock that advances accordingly.
struct World {
  ManualClock clock;
  std::function<double(const TuneChanges&)> seconds = [](const TuneChanges&) { return 10.0; };
  std::function<double(const TuneChanges&)> loss = [](const TuneChanges&) { return 0.5; };
  std::function<std::string(const TuneChanges&)> verdict = [](const TuneChanges&) {
    return std::string("input_bound");
  };
  std::function<std::optional<report::TrialFailure>(const TuneChanges&)> fails =
      [](const TuneChanges&) { return std::nullopt; };
  std::function<std::string(const TuneChanges&)> refuses = [](const TuneChanges&) {
    return std::string();
  };
  std::string setting;               // the verdict suggests it
  double taken = 0;                  // other processes use this fraction of the cores
  std::optional<int> busy_run = {};  // only this run, from 1, has `taken`, or all
  std::optional<int> signal_after;   // a signal arrives after that many runs
  int runs = 0;
  std::vector<TuneChanges> order;

  TuneResult run(const TuneChanges& changes, double most_s) {
    ++runs;
    order.push_back(changes);
    if (auto failure = fails(changes)) return *failure;
    const double total_s = seconds(changes);
    clock.advance(std::min(total_s, most_s));
    if (total_s > most_s)
      return report::TrialFailure{.exit_code = 8, .message = "late", .overdue = true};
    TuneSample sample{.trial = {.total_s = total_s,
                                .startup_s = 1,
                                .epoch_s = {total_s / 2, total_s / 2},
                                .samples_per_s = 100 / total_s,
                                .losses = {loss(changes)},
                                .data_digest = "d"}};
    sample.sample_s = total_s;
    sample.verdict = {
        .name = verdict(changes), .share = 0.5, .headroom = 2, .advice = "", .setting = setting};
    const bool is_busy = !busy_run || *busy_run == runs;
    sample.trial.taken = sample.verdict.taken = is_busy ? taken : 0;
    const std::string workers = value_of(changes, "loader.num_workers");
    sample.facts.num_workers = workers.empty() ? 0 : std::stoi(workers);
    sample.facts.prefetch_factor = 2;
    sample.facts.num_threads = 2;
    sample.facts.cores = 2;
    return sample;
  }

  report::TuneReport tune(study::TuneOptions options = {.budget_s = 1e6}) {
    const study::TuneTools tools{
        .run = [&](const TuneChanges& changes, TuneScope,
                   double most_s) { return run(changes, most_s); },
        .check = [&](const TuneChanges& changes) { return check(changes); },
        .no_capture = [](const spec::Experiment&) { return std::string("the run is on a CPU"); },
        .stopped = [&]() -> std::optional<int> {
          return signal_after && runs >= *signal_after ? std::optional(130) : std::nullopt;
        },
        .say = [](const std::string&) {},
        .clock = clock};
    return study::tune(options, {}, tools);
  }

  std::variant<spec::Experiment, std::string> check(const TuneChanges& changes) const {
    if (const std::string why = refuses(changes); !why.empty()) return why;
    std::vector<std::string> overrides;
    for (const auto& change : changes) overrides.push_back(change.key + "=" + change.value);
    constexpr const char* kExperiment =
        "dataset: { train: { type: synthetic_digits }, cache: { mode: none } }\n"
        "loader: { num_workers: 0 }\n"
        "model: { type: linear }\n"
        "optimizer: { type: sgd, lr: 0.1 }\n"
        "trainer: { num_threads: 2 }\n";
    config::Diagnostics diagnostics;
    return spec::load_experiment_text("a.yaml", kExperiment, overrides, diagnostics).experiment;
  }
};

/// One worker halves the time; all other changes have no effect.
double one_worker_helps(const TuneChanges& changes) {
  return value_of(changes, "loader.num_workers").empty() ? 10 : 5;
}

/// Adds relative noise to the seconds, with the same draws in every run of the test.
class Noisy {
 public:
  Noisy(double noise, std::function<double(const TuneChanges&)> seconds)
      : noise_(noise), seconds_(std::move(seconds)) {}

  double operator()(const TuneChanges& changes) {
    constexpr int kDraws = 12;  // their sum is almost normal, with a variance of 1
    double normal = -kDraws / 2.0;
    for (int i = 0; i < kDraws; ++i) normal += static_cast<double>(draw_()) / 4294967296.0;
    return seconds_(changes) * std::exp(noise_ * normal);
  }

 private:
  double noise_;
  std::function<double(const TuneChanges&)> seconds_;
  std::mt19937 draw_{1};
};

std::vector<std::string> patch_of(const report::TuneReport& report) {
  std::vector<std::string> all;
  for (const auto& entry : report.patch) all.push_back(entry.change.key + "=" + entry.change.value);
  return all;
}

const report::TuneTrial& tried(const report::TuneReport& report, const std::string& setting) {
  for (const auto& one : report.tried) {
    if (one.change.key + "=" + one.change.value == setting) return one;
  }
  throw std::runtime_error(setting + " was not tried");
}

}  // namespace

TEST_CASE("tune: a gain is found and confirmed, and changes without a gain are left out") {
  World world;
  world.seconds = one_worker_helps;
  const report::TuneReport report = world.tune();
  CHECK(report.exit_code == 0);
  CHECK(report.end == TuneStopReason::nothing_left);
  CHECK(patch_of(report) == std::vector<std::string>{"loader.num_workers=1"});
  CHECK(report.patch[0].change.before == "0");
  REQUIRE(report.gain);
  CHECK(report.gain->value == Approx(2));
  CHECK(tried(report, "loader.num_workers=1").ruling == TuneDecision::accepted);
  CHECK(tried(report, "loader.num_workers=2").ruling == TuneDecision::no_gain);
  CHECK(tried(report, "dataset.cache.mode=decoded").ruling == TuneDecision::no_gain);
}

TEST_CASE("tune: runs of both settings alternate, and each is first in turn") {
  World world;
  world.seconds = one_worker_helps;
  world.tune();
  std::string order;
  for (std::size_t i = 1; i <= 10; ++i) order += world.order[i].empty() ? "A" : "B";
  CHECK(order == "ABBAABBAAB");
}

TEST_CASE("tune: several steps of one key are one entry with their total gain") {
  World world;
  world.seconds = [](const TuneChanges& changes) {
    const std::string workers = value_of(changes, "loader.num_workers");
    return workers.empty() ? 12.0 : workers == "1" ? 6.0 : 4.0;
  };
  const report::TuneReport report = world.tune();
  CHECK(patch_of(report) == std::vector<std::string>{"loader.num_workers=2"});
  CHECK(report.patch[0].change.before == "0");
  CHECK(report.patch[0].gain.value == Approx(3));
  CHECK(report.gain->value == Approx(3));
}

TEST_CASE("tune: a run with nothing to fix gets an empty patch and exit code 0") {
  World world;
  world.verdict = [](const TuneChanges&) { return std::string("compute_bound"); };
  const report::TuneReport report = world.tune();
  CHECK(report.exit_code == 0);
  CHECK(report.end == TuneStopReason::nothing_to_fix);
  CHECK(report.patch.empty());
  CHECK_THAT(report.ended, StartsWith("nothing to fix"));
  CHECK_FALSE(report.gain);
  for (const auto& one : report.tried) CHECK(one.gain.pairs == 2);  // two pairs were enough
}

TEST_CASE("tune: without a gain, a busy machine leaves the search undecided") {
  World world;
  world.verdict = [](const TuneChanges&) { return std::string("compute_bound"); };
  world.taken = 0.45;
  const report::TuneReport report = world.tune();
  CHECK(report.patch.empty());
  CHECK(report.end == TuneStopReason::machine_busy);
  CHECK(report.exit_code == 4);
  CHECK_THAT(report.ended, Contains("45 % of the cores") && Contains("tune again") &&
                               !Contains("nothing to fix"));
  const std::string text = report::tune_text(report, {}, {});
  CHECK_THAT(text, Contains("inconclusive: the machine is busy") && !Contains("nothing to fix"));
  const Json document = report::tune_document(report, {});
  CHECK(document["ended"] == "machine_busy");
  CHECK(document["verdict"]["taken_cores"].get<double>() == Approx(0.45));
}

TEST_CASE("tune: a machine that was busy during any of the trials leaves the search undecided") {
  World quiet;
  quiet.verdict = [](const TuneChanges&) { return std::string("compute_bound"); };
  CHECK(quiet.tune().end == TuneStopReason::nothing_to_fix);
  REQUIRE(quiet.runs > 3);
  for (const int run : {1, 2, 3, quiet.runs}) {
    CAPTURE(run);
    World world;
    world.verdict = quiet.verdict;
    world.taken = 0.45;
    world.busy_run = run;
    const report::TuneReport report = world.tune();
    CHECK(report.end == TuneStopReason::machine_busy);
    CHECK(report.exit_code == 4);
    CHECK_THAT(report.ended, Contains("45 % of the cores"));
  }
}

TEST_CASE("tune: a gain on a busy machine is kept, and the report has the share of busy cores") {
  World world;
  world.seconds = one_worker_helps;
  world.taken = 0.3;
  const report::TuneReport report = world.tune();
  CHECK(report.exit_code == 0);
  CHECK(patch_of(report) == std::vector<std::string>{"loader.num_workers=1"});
  CHECK_THAT(report::tune_text(report, {}, {}), Contains("used 30 % of the cores"));
}

TEST_CASE("tune: noise that leaves changes open is reported with the time that would decide") {
  World world;
  world.seconds = Noisy(0.1, [](const TuneChanges&) { return 10.0; });
  const report::TuneReport report = world.tune({.budget_s = 1000});
  CHECK(report.patch.empty());
  CHECK(report.end == TuneStopReason::budget);
  CHECK(report.exit_code == 4);
  CHECK_THAT(report.ended, StartsWith("the times are too noisy: about ") &&
                               Contains("would be enough to decide") &&
                               !Contains("nothing to fix"));
  REQUIRE(report.undecided);
  CHECK_FALSE(report.undecided->changes.empty());
  CHECK(report.undecided->more_s > 0);
  CHECK(report.used_s > 850);  // less than the final comparison and a pair remain
  CHECK(report.used_s <= 1000);
}

TEST_CASE("tune: a gain that first trials cannot separate from noise is found within the budget") {
  World world;
  world.seconds = Noisy(0.05, [](const TuneChanges& changes) {
    return value_of(changes, "dataset.cache.mode") == "decoded" ? 9.3 : 10.0;
  });
  const report::TuneReport report = world.tune({.budget_s = 6000});
  CHECK(patch_of(report) == std::vector<std::string>{"dataset.cache.mode=decoded"});
  CHECK(report.exit_code == 0);
  REQUIRE(report.gain);
  CHECK(report.gain->ci95->low > 1.01);
}

TEST_CASE("tune: every change gets a first trial of two pairs before one gets more") {
  World world;
  world.seconds = [](const TuneChanges& changes) {  // the gain is small
    return value_of(changes, "loader.num_workers") == "1" ? 9.5 : 10.0;
  };
  const report::TuneReport report = world.tune();
  CHECK(patch_of(report) == std::vector<std::string>{"loader.num_workers=1"});
  int pairs = 0;
  std::set<std::string> before;  // they ran before the third pair of the best one
  for (const TuneChanges& changes : world.order) {
    if (changes.empty()) continue;
    if (value_of(changes, "loader.num_workers") == "1" && ++pairs == 3) break;
    before.insert(changes.front().key + "=" + changes.front().value);
  }
  CHECK(before == std::set<std::string>{"dataset.cache.mode=decoded", "dataset.cache.mode=encoded",
                                        "loader.num_workers=1", "loader.num_workers=2",
                                        "trainer.num_threads=1"});
}

TEST_CASE("tune: a budget that ends before all changes were tried names those that were not") {
  World world;
  // The first run takes 10 s, and a first trial of two pairs 40 s.
  const report::TuneReport report = world.tune({.budget_s = 100});
  CHECK(report.end == TuneStopReason::budget);
  CHECK(report.exit_code == 4);
  CHECK(report.tried.size() == 2);
  CHECK_THAT(report.ended, StartsWith("the rest of the budget is too short: about ") &&
                               Contains("dataset.cache.mode=decoded"));
  REQUIRE(report.undecided);
  CHECK(report.undecided->changes.empty());
  CHECK(report.undecided->untested.size() == 3);
  CHECK(report.undecided->more_s == Approx(3 * 100 + 100 - 10));
}

TEST_CASE("tune: advice that was not tested is reported with the option that allows it") {
  World world;
  world.setting = "loader.batch_size=128";
  const report::TuneReport report = world.tune();
  CHECK(report.patch.empty());
  CHECK(report.end == TuneStopReason::nothing_left);
  CHECK_THAT(report.ended, Contains("the advice was not tested: loader.batch_size=128") &&
                               Contains("--allow batch_size"));
}

TEST_CASE("tune: a change of the losses beyond the tolerance is rejected") {
  World world;
  world.seconds = one_worker_helps;
  world.loss = [](const TuneChanges& changes) {
    return value_of(changes, "loader.num_workers").empty() ? 0.5 : 0.5 + 1e-9;
  };
  const report::TuneReport report = world.tune();
  CHECK(tried(report, "loader.num_workers=1").ruling == TuneDecision::losses_differ);
  CHECK(tried(report, "loader.num_workers=1").gain.pairs == 2);
  CHECK(report.patch.empty());
  CHECK(report.exit_code == 0);

  World summed;
  summed.seconds = [](const TuneChanges& changes) {
    return value_of(changes, "trainer.num_threads").empty() ? 10.0 : 5.0;
  };
  summed.loss = [](const TuneChanges& changes) {
    return value_of(changes, "trainer.num_threads").empty() ? 0.5 : 0.5001;
  };
  CHECK(patch_of(summed.tune()) == std::vector<std::string>{"trainer.num_threads=1"});
  const report::TuneReport strict = summed.tune({.budget_s = 1e6, .tolerance = 1e-5});
  CHECK(strict.patch.empty());
  CHECK_THAT(tried(strict, "trainer.num_threads=1").why, Contains("the tolerance is 1e-05"));
}

TEST_CASE("tune: a change that fails is recorded and the search continues") {
  World world;
  world.seconds = [](const TuneChanges& changes) {
    return value_of(changes, "loader.num_workers") == "2" ? 5.0 : 10.0;
  };
  world.fails = [](const TuneChanges& changes) -> std::optional<report::TrialFailure> {
    if (value_of(changes, "loader.num_workers") != "1") return std::nullopt;
    return report::TrialFailure{11, "no memory"};
  };
  const report::TuneReport report = world.tune();
  CHECK(tried(report, "loader.num_workers=1").ruling == TuneDecision::failed);
  CHECK(tried(report, "loader.num_workers=1").why == "no memory");
  CHECK(patch_of(report) == std::vector<std::string>{"loader.num_workers=2"});
}

TEST_CASE("tune: a change that the experiment rejects is listed and not run") {
  World world;
  world.refuses = [](const TuneChanges& changes) {
    return value_of(changes, "dataset.cache.mode") == "decoded" ? std::string("it cannot")
                                                                : std::string();
  };
  const report::TuneReport report = world.tune();
  const auto one = std::ranges::find(report.untried, "decoded", &report::UntriedSetting::value);
  REQUIRE(one != report.untried.end());
  CHECK(one->why == "it cannot");
  for (const TuneChanges& changes : world.order)
    CHECK(value_of(changes, "dataset.cache.mode") != "decoded");
}

TEST_CASE("tune: a failure of the unchanged experiment is an error of its kind") {
  World world;
  world.fails = [](const TuneChanges&) {
    return std::optional(report::TrialFailure{9, "no such file"});
  };
  try {
    world.tune();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 9);
    CHECK_THAT(error.what(),
               Contains("cannot run the unchanged experiment") && Contains("no such file"));
  }
}

TEST_CASE("tune: fewer pairs decide if the budget has no time for all of them") {
  // The first run takes 10 s, a first trial 30 s, five pairs 75 s, and so does the final
  // comparison.
  World none;
  none.seconds = one_worker_helps;
  const report::TuneReport open = none.tune({.budget_s = 60});
  CHECK(open.end == TuneStopReason::budget);
  CHECK(tried(open, "loader.num_workers=1").ruling == TuneDecision::unclear);
  CHECK_THAT(open.ended, StartsWith("the rest of the budget is too short: about ") &&
                             Contains("would be enough to decide on loader.num_workers=1"));
  CHECK(open.exit_code == 4);
  World few;
  few.seconds = one_worker_helps;
  const report::TuneReport short_one = few.tune({.budget_s = 150});
  CHECK(patch_of(short_one) == std::vector<std::string>{"loader.num_workers=1"});
  CHECK(tried(short_one, "loader.num_workers=1").gain.pairs == 4);
  REQUIRE(short_one.gain);
  CHECK(short_one.used_s <= 150);
  World more;
  more.seconds = one_worker_helps;
  const report::TuneReport one = more.tune({.budget_s = 230});
  CHECK(patch_of(one) == std::vector<std::string>{"loader.num_workers=1"});
  CHECK(tried(one, "loader.num_workers=1").gain.pairs == 5);
  CHECK(one.end == TuneStopReason::budget);
  CHECK(one.gain);
  CHECK(one.exit_code == 0);
  CHECK(one.used_s <= 230);
}

TEST_CASE("tune: a change that is ten times slower is killed and others are still tried") {
  World world;
  world.seconds = [](const TuneChanges& changes) {
    if (value_of(changes, "loader.num_workers") == "1") return 100.0;
    return value_of(changes, "dataset.cache.mode").empty() ? 10.0 : 5.0;
  };
  const report::TuneReport report = world.tune({.budget_s = 400});
  CHECK(tried(report, "loader.num_workers=1").ruling == TuneDecision::no_gain);
  CHECK_THAT(tried(report, "loader.num_workers=1").why, Contains("three times as long"));
  CHECK(patch_of(report) == std::vector<std::string>{"dataset.cache.mode=decoded"});
  CHECK(report.gain);
  CHECK(report.used_s <= 400);
}

TEST_CASE("tune: no run exceeds the budget") {
  World world;
  world.seconds = [](const TuneChanges&) { return 500.0; };
  const report::TuneReport first = world.tune({.budget_s = 60});
  CHECK(first.end == TuneStopReason::budget);
  CHECK(first.exit_code == 4);
  CHECK(first.used_s == Approx(60));
  World stalled;  // the second run of the base stalls
  stalled.seconds = [&](const TuneChanges& changes) {
    return stalled.runs < 5 ? one_worker_helps(changes) : 1000.0;
  };
  const report::TuneReport later = stalled.tune({.budget_s = 400});
  CHECK(later.end == TuneStopReason::budget);
  CHECK(tried(later, "loader.num_workers=1").ruling == TuneDecision::unclear);
  CHECK(later.exit_code == 4);
  CHECK(later.used_s == Approx(400));
}

TEST_CASE("tune: a late failure of the base keeps the accepted changes") {
  World world;
  world.seconds = one_worker_helps;
  world.fails = [&](const TuneChanges&) -> std::optional<report::TrialFailure> {
    if (world.runs != 12) return std::nullopt;  // the first run and five pairs are done
    return report::TrialFailure{11, "no memory"};
  };
  const report::TuneReport report = world.tune();
  CHECK(report.end == TuneStopReason::failed);
  CHECK(report.exit_code == 11);
  CHECK_THAT(report.ended, Contains("failed: no memory"));
  CHECK(patch_of(report) == std::vector<std::string>{"loader.num_workers=1"});
  CHECK_FALSE(report.gain);
}

TEST_CASE("tune: the suggestion of the verdict is tried first, then its neighbors") {
  World world;
  world.setting = "loader.num_workers=5";
  const report::TuneReport report = world.tune();
  REQUIRE(report.tried.size() > 1);
  CHECK(report.tried[0].change.value == "5");
  CHECK(report.tried[0].change.before == "0");
  CHECK(report.tried[1].change.value == "1");
  World other;
  other.setting = "optimizer.lr=1";  // tune does not know this key
  CHECK(other.tune().tried[0].change.key == "loader.num_workers");
}

TEST_CASE("tune: time spent before the search counts") {
  World world;
  CHECK(world.tune({.budget_s = 1000, .spent_s = 990}).end == TuneStopReason::budget);
  CHECK(world.runs == 1);
}

TEST_CASE("tune: a signal ends the search and keeps accepted changes without a final comparison") {
  World world;
  world.seconds = one_worker_helps;
  world.signal_after = 11;  // the first run and five pairs
  const report::TuneReport report = world.tune();
  CHECK(world.runs == 11);
  CHECK(report.exit_code == 130);
  CHECK(report.end == TuneStopReason::stopped);
  CHECK(patch_of(report) == std::vector<std::string>{"loader.num_workers=1"});
  CHECK_FALSE(report.gain);
}

TEST_CASE("tune: a signal during a run ends the search without its unfinished comparison") {
  World world;
  world.fails = [&](const TuneChanges&) -> std::optional<report::TrialFailure> {
    if (world.runs < 4) return std::nullopt;
    return report::TrialFailure{75, "stopped"};
  };
  const report::TuneReport report = world.tune();
  CHECK(world.runs == 4);
  CHECK(report.exit_code == 143);  // there is nothing to requeue
  CHECK(report.tried.empty());
}

TEST_CASE("tune: a gain that the final comparison does not confirm is dropped") {
  World world;
  world.seconds = [&](const TuneChanges& changes) {  // the original is only slow in the search
    if (!value_of(changes, "loader.num_workers").empty()) return 5.0;
    return world.runs <= 11 ? 10.0 : 5.0;
  };
  const report::TuneReport report = world.tune();
  CHECK(report.patch.empty());
  CHECK_FALSE(report.gain);
  CHECK(tried(report, "loader.num_workers=1").ruling == TuneDecision::dropped);
  CHECK_THAT(tried(report, "loader.num_workers=1").why,
             Contains("the final comparison confirmed no gain"));
  CHECK(report.exit_code == 4);
}

TEST_CASE("tune: losses of a nondeterministic run are compared with the tolerance") {
  World world;
  int calls = 0;
  world.seconds = one_worker_helps;
  world.loss = [&](const TuneChanges&) { return 0.5 + 1e-6 * (++calls % 2); };
  const report::TuneReport report = world.tune();
  CHECK(tried(report, "loader.num_workers=1").ruling == TuneDecision::accepted);
  CHECK(report.gain);
}
