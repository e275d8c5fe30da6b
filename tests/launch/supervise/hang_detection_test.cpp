#include "launch/supervise/hang_detection.hpp"

#include "launch/job.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace trainctl::launch {
namespace {

using events::Phase;

/// A rank whose heartbeats are seen at artificial times.
class MonitoredRank {
 public:
  explicit MonitoredRank(HeartbeatMonitor monitor = HeartbeatMonitor())
      : monitor_(std::move(monitor)) {}
  void stamp(Phase phase, double at) {
    page_.phase = static_cast<std::int32_t>(phase);
    page_.monotonic_ns = ++stamps_;
    monitor_.update(page_, at);
  }
  void load(double at) {
    page_.loaded.fetch_add(1);
    monitor_.update(page_, at);
  }
  [[nodiscard]] const HeartbeatMonitor& monitor() const { return monitor_; }
  [[nodiscard]] bool is_stalled(double at) {
    monitor_.update(page_, at);
    return monitor_.stall(at).has_value();
  }

 private:
  events::Heartbeat page_{};
  std::int64_t stamps_ = 0;
  HeartbeatMonitor monitor_;
};

/// Returns a clock that advances by an hour once so many ranks stand still.
HangClock leaping_clock(const Job& job, int ranks) {
  return {job, [&job, ranks] { return job.count<events::Progress>() >= ranks; }};
}

void set_limits(Job& job) {
  job.spec.grace_s = 0.5;
  job.spec.init_timeout_s = 60'000;
}

}  // namespace

TEST_CASE("HeartbeatMonitor: a rank without heartbeats stalls after a minute") {
  MonitoredRank rank;
  for (int i = 0; i < 100; ++i) rank.stamp(Phase::train, i * 0.1);
  CHECK_FALSE(rank.is_stalled(60));
  CHECK(rank.is_stalled(70.1));
  rank.stamp(Phase::train, 71);
  CHECK_FALSE(rank.is_stalled(72));
}

TEST_CASE("HeartbeatMonitor: the limit of long steps is ten times their duration") {
  MonitoredRank rank;
  for (int i = 0; i < 10; ++i) rank.stamp(Phase::train, i * 20);
  CHECK_FALSE(rank.is_stalled(180 + 199));
  CHECK(rank.is_stalled(180 + 201));
}

TEST_CASE("HeartbeatMonitor: a first step of more than a minute sets the limit of the second") {
  MonitoredRank rank;
  rank.stamp(Phase::startup, 0);
  rank.stamp(Phase::train, 90);
  CHECK_FALSE(rank.is_stalled(90 + 899));
  CHECK(rank.is_stalled(90 + 901));
}

TEST_CASE("HeartbeatMonitor: startup and loading have no limit if loaded data is not counted") {
  for (const Phase phase : {Phase::startup, Phase::load}) {
    MonitoredRank rank;
    rank.stamp(Phase::train, 1);
    rank.stamp(phase, 2);
    CHECK_FALSE(rank.is_stalled(1e6));
  }
  CHECK_FALSE(MonitoredRank().is_stalled(1e6));
}

TEST_CASE("HeartbeatMonitor: loading stalls ten minutes after its last progress") {
  for (const Phase phase : {Phase::startup, Phase::load}) {
    MonitoredRank rank;
    rank.load(1);
    rank.stamp(phase, 2);
    for (double at = 500; at < 5000; at += 500) {
      CHECK_FALSE(rank.is_stalled(at));
      rank.load(at);
    }
    CHECK_FALSE(rank.is_stalled(4500 + 600));
    CHECK(rank.is_stalled(4500 + 601));
  }
}

TEST_CASE("HeartbeatMonitor: loaded data does not count as progress during a step") {
  MonitoredRank rank;
  rank.load(1);
  rank.stamp(Phase::train, 2);
  rank.load(60);
  CHECK(rank.is_stalled(63));
}

TEST_CASE(
    "HeartbeatMonitor: a pause of loading may be ten times the longest load, or the timeout") {
  MonitoredRank rank;
  rank.load(1);
  rank.stamp(Phase::load, 10);
  rank.stamp(Phase::train, 110);
  rank.stamp(Phase::load, 120);
  CHECK_FALSE(rank.is_stalled(120 + 999));
  CHECK(rank.is_stalled(120 + 1001));
  MonitoredRank patient{HeartbeatMonitor(2000)};
  patient.load(1);
  patient.stamp(Phase::startup, 2);
  CHECK_FALSE(patient.is_stalled(2 + 1999));
  CHECK(patient.is_stalled(2 + 2001));
}

TEST_CASE(
    "HeartbeatMonitor: startup has ten times the timeout, at most ten minutes or the timeout") {
  const std::vector<std::pair<double, double>> limits{{3, 30}, {60, 600}, {90, 600}, {1800, 1800}};
  for (const auto& [set, limit] : limits) {
    MonitoredRank rank{HeartbeatMonitor(set)};
    rank.load(1);
    rank.stamp(Phase::startup, 2);
    CHECK_FALSE(rank.is_stalled(2 + limit - 0.5));
    CHECK(rank.is_stalled(2 + limit + 0.5));
    rank.load(5000);  // reading data is progress
    CHECK_FALSE(rank.is_stalled(5000 + limit - 0.5));
  }
}

TEST_CASE(
    "HeartbeatMonitor: saving and shutdown have ten minutes, or the step limit if that is more") {
  for (const Phase phase : {Phase::checkpoint, Phase::shutdown}) {
    for (const double limit : {5.0, 1000.0}) {
      MonitoredRank rank{HeartbeatMonitor(limit)};
      rank.stamp(Phase::train, 1);
      rank.stamp(phase, 2);
      const double longest = std::max(limit, 600.0);
      CHECK_FALSE(rank.is_stalled(2 + longest));
      CHECK(rank.is_stalled(2 + longest + 1));
    }
  }
}

TEST_CASE("HeartbeatMonitor: hang_timeout applies for any duration of earlier steps") {
  MonitoredRank rank{HeartbeatMonitor(5)};
  for (int i = 0; i < 10; ++i) rank.stamp(Phase::train, i * 20);
  CHECK_FALSE(rank.is_stalled(180 + 5));
  CHECK(rank.is_stalled(180 + 5.5));
}

TEST_CASE("describe_stall: names the phase and its limit") {
  CHECK(describe_stall({61, 60, Phase::train}) ==
        "it has made no progress for 1 min 01 s in training; the limit is 1 min 00 s "
        "(trainer.hang_timeout)");
  CHECK_THAT(describe_stall({605, 600, Phase::checkpoint}),
             Contains("while saving; the limit is 10 min 00 s") && !Contains("hang_timeout"));
  CHECK_THAT(describe_stall({31, 30, Phase::startup}),
             Contains("during startup; the limit is 30.0 s (derived from trainer.hang_"));
}

TEST_CASE("describe_stall: reports a stopped process and the option of the limit") {
  CHECK(describe_stall({3.5, 3, Phase::checkpoint, {}, true}) ==
        "it has been suspended (SIGSTOP) for 3.50 s while saving; the limit is "
        "3.00 s (trainer.hang_timeout)");
}

TEST_CASE("describe_stall: names the collective and whether the rank waits in it") {
  CHECK_THAT(describe_stall({61, 60, Phase::train, {"sum of the losses", true}}),
             Contains("(trainer.hang_timeout); it waits for other ranks in the collective 'sum of "
                      "the losses'"));
  CHECK_THAT(describe_stall({61, 60, Phase::train, {"sum of the losses", false}}),
             Contains("; its last collective was 'sum of the losses'"));
}

TEST_CASE("HeartbeatMonitor: validation without heartbeats stalls too") {
  MonitoredRank validating;
  validating.stamp(Phase::validate, 1);
  CHECK(validating.is_stalled(100));
}

TEST_CASE("HeartbeatMonitor: measures the duration of steps and saves") {
  MonitoredRank rank;
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

TEST_CASE("HeartbeatMonitor: a supervisor that was stopped itself reports no rank") {
  MonitoredRank rank;
  rank.stamp(Phase::train, 1);
  rank.stamp(Phase::train, 5000);
  CHECK_FALSE(rank.is_stalled(5001));
}

TEST_CASE("hang: the job ends with 8 and names the rank that hangs") {
  Job job({"catch_term", "hello", "1:step=41", "1:announce", "1:wait", "report", "train"}, 2);
  set_limits(job);
  const HangClock clock(
      job, [&] { return job.count<events::Progress>() > 0; }, 0.2);
  const Outcome outcome = job.run({}, clock);
  CHECK(outcome.exit_code == 8);
  CHECK(outcome.verdict == "hang");
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(outcome.first_failure->step == 41);
  CHECK_THAT(outcome.message, Contains("no progress"));
  CHECK(job.survivors() == 0);
}

TEST_CASE("hang: of two stalled ranks, the one that waits for the other is not the cause") {
  Job job({"catch_term", "hello", "0:step=41", "barrier", "1:step=41",
           "begin_collective=sum of the losses", "1:end_collective", "announce", "wait"},
          2);
  set_limits(job);
  const Outcome outcome = job.run({}, leaping_clock(job, 2));
  CHECK(outcome.exit_code == 8);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(outcome.first_failure->collective == "sum of the losses");
  CHECK_THAT(outcome.message, Contains("its last collective was"));
}

TEST_CASE("hang: if all ranks wait in a collective, the one that stalled first is named") {
  Job job({"catch_term", "hello", "1:step=41", "barrier", "0:step=42", "begin_collective=copy",
           "announce", "wait"},
          2);
  set_limits(job);
  const Outcome outcome = job.run({}, leaping_clock(job, 2));
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK_THAT(outcome.message, Contains("it waits for other ranks in the collective 'copy'"));
}

TEST_CASE("hang: a rank stopped within a collective is the cause, not one that waits in it") {
  Job job({"catch_term", "hello", "0:step=41", "barrier", "1:step=41", "begin_collective=copy",
           "1:stop", "announce", "wait"},
          2);
  set_limits(job);
  const auto stands = [&] { return job.count<events::Progress>() > 0 && job.is_stopped(1); };
  const Outcome outcome = job.run({}, HangClock(job, stands));
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(job.survivors() == 0);
}

TEST_CASE("hang: a rank that saves too long is the cause, not one that waits for it") {
  Job job({"catch_term", "hello", "0:step=41", "1:save=41", "announce", "wait"}, 2);
  set_limits(job);
  job.spec.hang_timeout_s = 1'000;
  const Outcome outcome = job.run({}, leaping_clock(job, 2));
  CHECK(outcome.exit_code == 8);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(outcome.first_failure->phase == "checkpoint");
  CHECK_THAT(outcome.message, Contains("while saving"));
}

TEST_CASE("hang: stalled loading is a hang, waiting for slow loading is not") {
  Job stuck({"catch_term", "hello", "load=1", "announce", "wait"});
  set_limits(stuck);
  const Outcome hang = stuck.run({}, leaping_clock(stuck, 1));
  CHECK(hang.exit_code == 8);
  CHECK_THAT(hang.message, Contains("while loading"));

  Job slow({"catch_term", "hello", "0:load=1", "barrier", "0:wait", "report", "load=400", "fail=9"},
           2);
  set_limits(slow);
  const HangClock clock(
      slow, [] { return true; }, 3);
  const Outcome failed = slow.run({}, clock);
  INFO(failed.message);
  CHECK(failed.exit_code == 9);
}

}  // namespace trainctl::launch
