#include "launch/supervise/hang_detection.hpp"

#include "base/clock.hpp"
#include "launch/job.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace trainctl::launch {
namespace {

using events::Phase;

/// A rank whose heartbeats are seen at artificial times.
class Watched {
 public:
  explicit Watched(Pulse pulse = Pulse()) : monitor_(std::move(pulse)) {}
  void stamp(Phase phase, double at) {
    page_.phase = static_cast<std::int32_t>(phase);
    page_.monotonic_ns = ++stamps_;
    monitor_.update(page_, at);
  }
  void load(double at) {
    page_.loaded.fetch_add(1);
    monitor_.update(page_, at);
  }
  [[nodiscard]] const Pulse& monitor() const { return monitor_; }
  [[nodiscard]] bool is_silent(double at) {
    monitor_.update(page_, at);
    return monitor_.stall(at).has_value();
  }

 private:
  events::Heartbeat page_{};
  std::int64_t stamps_ = 0;
  Pulse monitor_;
};

/// Runs at least twenty times as fast: a minute of silence takes three seconds, which is longer
/// than a rank that makes progress waits for a core.
class FastClock final : public Clock {
 public:
  explicit FastClock(double factor = 20) : factor_(factor) {}
  [[nodiscard]] double now() const override { return factor_ * steady_clock().now(); }

 private:
  double factor_;
};

}  // namespace

TEST_CASE("a rank that stamps no more is silent after a minute") {
  Watched rank;
  for (int i = 0; i < 100; ++i) rank.stamp(Phase::train, i * 0.1);
  CHECK_FALSE(rank.is_silent(60));
  CHECK(rank.is_silent(70.1));
  rank.stamp(Phase::train, 71);
  CHECK_FALSE(rank.is_silent(72));
}

TEST_CASE("long steps are given ten of their kind") {
  Watched rank;
  for (int i = 0; i < 10; ++i) rank.stamp(Phase::train, i * 20);
  CHECK_FALSE(rank.is_silent(180 + 199));
  CHECK(rank.is_silent(180 + 201));
}

TEST_CASE("a first step that is longer than a minute gives the second ten times as long") {
  Watched rank;
  rank.stamp(Phase::startup, 0);
  rank.stamp(Phase::train, 90);
  CHECK_FALSE(rank.is_silent(90 + 899));
  CHECK(rank.is_silent(90 + 901));
}

TEST_CASE("start and loading may take as long as they like where nobody counts what is loaded") {
  for (const Phase phase : {Phase::startup, Phase::load}) {
    Watched rank;
    rank.stamp(Phase::train, 1);
    rank.stamp(phase, 2);
    CHECK_FALSE(rank.is_silent(1e6));
  }
  CHECK_FALSE(Watched().is_silent(1e6));
}

TEST_CASE("loading that goes on is alive, and silent ten minutes after it stopped") {
  for (const Phase phase : {Phase::startup, Phase::load}) {
    Watched rank;
    rank.load(1);
    rank.stamp(phase, 2);
    for (double at = 500; at < 5000; at += 500) {
      CHECK_FALSE(rank.is_silent(at));
      rank.load(at);
    }
    CHECK_FALSE(rank.is_silent(4500 + 600));
    CHECK(rank.is_silent(4500 + 601));
  }
}

TEST_CASE("what is loaded is no sign of life in a step") {
  Watched rank;
  rank.load(1);
  rank.stamp(Phase::train, 2);
  rank.load(60);
  CHECK(rank.is_silent(63));
}

TEST_CASE("a pause of loading may be ten times the longest load so far, or as long as was set") {
  Watched rank;
  rank.load(1);
  rank.stamp(Phase::load, 10);
  rank.stamp(Phase::train, 110);
  rank.stamp(Phase::load, 120);
  CHECK_FALSE(rank.is_silent(120 + 999));
  CHECK(rank.is_silent(120 + 1001));
  Watched patient{Pulse(2000)};
  patient.load(1);
  patient.stamp(Phase::startup, 2);
  CHECK_FALSE(patient.is_silent(2 + 1999));
  CHECK(patient.is_silent(2 + 2001));
}

TEST_CASE("Pulse: the start has ten times a limit that was set, and ten minutes or it at most") {
  const std::vector<std::pair<double, double>> limits{{3, 30}, {60, 600}, {90, 600}, {1800, 1800}};
  for (const auto& [set, limit] : limits) {
    Watched rank{Pulse(set)};
    rank.load(1);
    rank.stamp(Phase::startup, 2);
    CHECK_FALSE(rank.is_silent(2 + limit - 0.5));
    CHECK(rank.is_silent(2 + limit + 0.5));
    rank.load(5000);  // reading data is a sign of life
    CHECK_FALSE(rank.is_silent(5000 + limit - 0.5));
  }
}

TEST_CASE("saving and the end have ten minutes, or the limit of a step if that is more") {
  for (const Phase phase : {Phase::checkpoint, Phase::shutdown}) {
    for (const double limit : {5.0, 1000.0}) {
      Watched rank{Pulse(limit)};
      rank.stamp(Phase::train, 1);
      rank.stamp(phase, 2);
      const double longest = std::max(limit, 600.0);
      CHECK_FALSE(rank.is_silent(2 + longest));
      CHECK(rank.is_silent(2 + longest + 1));
    }
  }
}

TEST_CASE("a limit that was set holds, however long the steps before") {
  Watched rank{Pulse(5)};
  for (int i = 0; i < 10; ++i) rank.stamp(Phase::train, i * 20);
  CHECK_FALSE(rank.is_silent(180 + 5));
  CHECK(rank.is_silent(180 + 5.5));
}

TEST_CASE("the sentence about a silence names the phase and its limit") {
  CHECK(sentence_of({61, 60, Phase::train}) ==
        "it has made no progress for 1 min 01 s in training; the limit is 1 min 00 s "
        "(trainer.hang_timeout)");
  CHECK_THAT(sentence_of({605, 600, Phase::checkpoint}),
             Contains("while saving; the limit is 10 min 00 s") && !Contains("hang_timeout"));
  CHECK_THAT(sentence_of({31, 30, Phase::startup}),
             Contains("during startup; the limit is 30.0 s (derived from trainer.hang_"));
}

TEST_CASE("the sentence about a stopped process says so, and that the limit can be set") {
  CHECK(sentence_of({3.5, 3, Phase::checkpoint, {}, true}) ==
        "it has been stopped by a signal for 3.50 s while saving; the limit is "
        "3.00 s (trainer.hang_timeout)");
}

TEST_CASE("the sentence about a silence names the collective, and whether it is waited for") {
  CHECK_THAT(sentence_of({61, 60, Phase::train, {"sum of the losses", true}}),
             Contains("(trainer.hang_timeout); it waits for other ranks in the collective 'sum of "
                      "the losses'"));
  CHECK_THAT(sentence_of({61, 60, Phase::train, {"sum of the losses", false}}),
             Contains("; its last collective was 'sum of the losses'"));
}

TEST_CASE("a validation that stamps no more is silent, too") {
  Watched validating;
  validating.stamp(Phase::validate, 1);
  CHECK(validating.is_silent(100));
}

TEST_CASE("a pulse tells how long steps and saves take") {
  Watched rank;
  rank.stamp(Phase::startup, 1);
  rank.stamp(Phase::load, 5);
  CHECK_FALSE(rank.monitor().has_stepped());
  CHECK(rank.monitor().step_s() == 0);
  for (int i = 0; i < 9; ++i) rank.stamp(Phase::train, 10 + i * 2);
  CHECK(rank.monitor().has_stepped());
  CHECK(rank.monitor().step_s() == 2);
  CHECK(rank.monitor().longest_save_s() == 0);
  rank.stamp(Phase::checkpoint, 30);
  rank.stamp(Phase::checkpoint, 33);
  rank.stamp(Phase::train, 37);
  CHECK(rank.monitor().longest_save_s() == 7);
  rank.stamp(Phase::checkpoint, 40);
  rank.stamp(Phase::train, 41);
  CHECK(rank.monitor().longest_save_s() == 7);
  CHECK(rank.monitor().heartbeat_at() == 41);
}

TEST_CASE("a supervisor that was stopped itself looks again before it blames") {
  Watched rank;
  rank.stamp(Phase::train, 1);
  rank.stamp(Phase::train, 5000);
  CHECK_FALSE(rank.is_silent(5001));
}

TEST_CASE("a job whose rank hangs ends with 8 and names it, one that goes on is left alone") {
  const FastClock clock;
  Job job({"catch_term", "hello", "1:step=41", "1:wait", "train"}, 2);
  job.spec.grace_s = 20;
  job.spec.init_timeout_s = 60'000;
  const Outcome outcome = supervise(
      job.spec, [](int, const events::Event&) {}, [] {}, clock);
  CHECK(outcome.exit_code == 8);
  CHECK(outcome.verdict == "hang");
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(outcome.first_failure->step == 41);
  CHECK_THAT(outcome.message, Contains("no progress"));
  CHECK(job.survivors() == 0);
}

TEST_CASE("of two that stand still the one that waits for the other is not blamed") {
  const FastClock clock;
  Job job({"catch_term", "hello", "0:step=41", "meet", "1:step=41", "exchange=sum of the losses",
           "1:exchanged", "wait"},
          2);
  job.spec.grace_s = 20;
  job.spec.init_timeout_s = 60'000;
  const Outcome outcome = job.run({}, clock);
  CHECK(outcome.exit_code == 8);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(outcome.first_failure->collective == "sum of the losses");
  CHECK_THAT(outcome.message, Contains("its last collective was"));
}

TEST_CASE("where all wait in a collective the one that fell silent first is named with it") {
  const FastClock clock;
  Job job({"catch_term", "hello", "1:step=41", "meet", "0:step=42", "exchange=copy", "wait"}, 2);
  job.spec.grace_s = 20;
  job.spec.init_timeout_s = 60'000;
  const Outcome outcome = job.run({}, clock);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK_THAT(outcome.message, Contains("it waits for other ranks in the collective 'copy'"));
}

TEST_CASE(
    "a rank that was stopped within a collective is blamed, not the one that waits there too") {
  const FastClock clock;
  Job job(
      {"catch_term", "hello", "0:step=41", "meet", "1:step=41", "exchange=copy", "1:stop", "wait"},
      2);
  job.spec.grace_s = 20;
  job.spec.init_timeout_s = 60'000;
  const Outcome outcome = job.run({}, clock);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(job.survivors() == 0);
}

TEST_CASE("a rank that waits for one that saves is not blamed, one that saves for ever is") {
  const FastClock clock(300);
  Job job({"catch_term", "hello", "0:step=41", "1:save=41", "wait"}, 2);
  job.spec.grace_s = 20;
  job.spec.init_timeout_s = 60'000;
  job.spec.hang_timeout_s = 1;
  const Outcome outcome = job.run({}, clock);
  CHECK(outcome.exit_code == 8);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(outcome.first_failure->phase == "checkpoint");
  CHECK_THAT(outcome.message, Contains("while saving"));
}

TEST_CASE("a rank whose loading stands still hangs, one that waits for slow loading does not") {
  const FastClock clock(300);
  Job stuck({"catch_term", "hello", "load", "wait"});
  stuck.spec.grace_s = 20;
  stuck.spec.init_timeout_s = 60'000;
  const Outcome hang = stuck.run({}, clock);
  CHECK(hang.exit_code == 8);
  CHECK_THAT(hang.message, Contains("while loading"));

  Job slow({"catch_term", "hello", "0:load", "0:wait", "1:load_for=4000", "1:fail=9"}, 2);
  slow.spec.grace_s = 20;
  slow.spec.init_timeout_s = 60'000;
  const Outcome failed = slow.run({}, clock);
  INFO(failed.message);
  CHECK(failed.exit_code == 9);
}

}  // namespace trainctl::launch
