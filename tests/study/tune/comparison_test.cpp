#include "study/tune/paired_trials.hpp"
#include "support/catch.hpp"
#include "support/manual_clock.hpp"

#include <cmath>
#include <vector>

using namespace trainctl;
using report::TuneDecision;
using study::Comparison;
using study::ComparisonRuns;
using study::PairNoise;

namespace {

/// Returns pairs of runs with equal losses; the base takes 10 s.
ComparisonRuns pairs_of(const std::vector<double>& other_s) {
  ComparisonRuns runs;
  for (const double seconds : other_s) {
    const report::Trial trial{.total_s = 10,
                              .startup_s = 1,
                              .epoch_s = {5, 5},
                              .samples_per_s = 10,
                              .losses = {0.5},
                              .data_digest = "d"};
    runs.base.trials.push_back(trial);
    runs.other.trials.push_back(trial);
    runs.base_s.push_back(10);
    runs.other_s.push_back(seconds);
  }
  return runs;
}

PairNoise noise_of(const ComparisonRuns& runs) {
  PairNoise noise;
  noise.update("a", runs);
  return noise;
}

TuneDecision ruling_of(const ComparisonRuns& runs, const PairNoise& noise) {
  return study::rule_on(Comparison{}, runs, noise).ruling;
}

}  // namespace

TEST_CASE("PairNoise: nothing is known before a comparison has two pairs") {
  CHECK_FALSE(PairNoise().deviation());
  CHECK_FALSE(noise_of(pairs_of({9})).deviation());
  CHECK_FALSE(noise_of(pairs_of({9})).interval(pairs_of({9})));
  CHECK(noise_of(pairs_of({9, 11})).deviation());
}

TEST_CASE("PairNoise: comparisons are pooled, and an update replaces the one of its name") {
  PairNoise noise;
  noise.update("a", pairs_of({9, 11}));
  const double alone = *noise.deviation();
  noise.update("b", pairs_of({10, 10, 10}));
  CHECK(*noise.deviation() == Approx(alone / std::sqrt(3)));
  noise.update("a", pairs_of({10, 10}));
  CHECK(*noise.deviation() == 0);
}

TEST_CASE("PairNoise: the interval of a gain shrinks with the pairs of all comparisons") {
  PairNoise noise = noise_of(pairs_of({9.5, 10.5}));
  const ComparisonRuns two = pairs_of({10, 10});
  const double first = noise.interval(two)->high;
  noise.update("b", pairs_of({9.5, 10.5, 9.5, 10.5, 9.5, 10.5}));
  CHECK(noise.interval(two)->high < first);
  CHECK(noise.interval(two)->low < 1);
}

TEST_CASE("rule_on: a gain is ruled out only if the noise is too small to hide it") {
  const ComparisonRuns slower = pairs_of({10.1, 10.1});
  CHECK(ruling_of(slower, noise_of(pairs_of({10, 10.01, 10}))) == TuneDecision::no_gain);
  CHECK(ruling_of(slower, noise_of(pairs_of({9, 11, 9}))) == TuneDecision::unclear);
  CHECK(ruling_of(slower, PairNoise()) == TuneDecision::unclear);
}

TEST_CASE("rule_on: a gain is accepted only by an interval of three pairs or more") {
  const PairNoise quiet = noise_of(pairs_of({10, 10, 10}));
  CHECK(ruling_of(pairs_of({5, 5}), quiet) == TuneDecision::unclear);
  CHECK(ruling_of(pairs_of({5, 5.01, 5}), quiet) == TuneDecision::accepted);
}

TEST_CASE("is_obvious: every pair is faster by more than a tenth") {
  CHECK(study::is_obvious(pairs_of({5, 8})));
  CHECK_FALSE(study::is_obvious(pairs_of({5, 9.5})));
  CHECK_FALSE(study::is_obvious(pairs_of({5})));
}

TEST_CASE("PairNoise: more noise needs more pairs to decide, and a large difference fewer") {
  const ComparisonRuns equal = pairs_of({10, 10});
  const int quiet = noise_of(pairs_of({9.9, 10.1, 9.9})).pairs_to_decide(equal);
  const int loud = noise_of(pairs_of({9, 11, 9})).pairs_to_decide(equal);
  CHECK(quiet >= 3);
  CHECK(loud > 10 * quiet);
  CHECK(noise_of(pairs_of({9, 11, 9})).pairs_to_decide(pairs_of({5, 5})) < 10);
  CHECK(PairNoise().pairs_to_decide(equal) == 3);
}

TEST_CASE(
    "PairedTrials: only runs of the unchanged experiment set the time of the final comparison") {
  ManualClock clock;
  const study::TuneOptions options{.budget_s = 1e6};
  const auto run = [&](const report::TuneChanges& /*changes*/, study::TuneScope /*scope*/,
                       double /*most_s*/) {
    clock.advance(7);
    return study::TuneResult(study::TuneSample{
        .trial = {.total_s = 7, .startup_s = 1, .losses = {0.5}, .data_digest = "d"},
        .sample_s = 7});
  };
  const study::TuneTools tools{
      .run = run, .check = {}, .no_capture = {}, .stopped = {}, .say = {}, .clock = clock};
  study::PairedTrials trials(options, tools);
  trials.start(1);
  ComparisonRuns changed;
  const report::TuneChanges workers{{"loader.num_workers", "0", "1"}};
  trials.run({.base = workers, .other = {}}, 2, changed);
  REQUIRE(changed.pairs() == 2);
  CHECK(trials.proof_s(1) == 2);
  ComparisonRuns unchanged;
  trials.run({.base = {}, .other = workers}, 2, unchanged);
  CHECK(trials.proof_s(1) == 14);
}
