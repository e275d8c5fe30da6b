#include "launch/job.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

// These tests send stop signals in every phase and to every process.

namespace trainctl::launch {
namespace {

enum class Target { supervisor, worker, group };

const char* name_of(Target target) {
  switch (target) {
    case Target::supervisor: return "the supervisor";
    case Target::worker: return "one worker";
    case Target::group: return "all";
  }
  return "?";
}

/// Sends `signal` once every rank is in its phase.
EventHandler send(int signal, Target target, int world) {
  return
      [=, pids = std::map<int, pid_t>(), ready = 0](int rank, const events::Event& event) mutable {
        if (const auto* hello = std::get_if<events::Hello>(&event))
          pids[rank] = static_cast<pid_t>(hello->pid);
        if (!std::holds_alternative<events::Progress>(event) || ++ready < world) return;
        if (target == Target::worker) ::kill(pids.at(world - 1), signal);
        if (target == Target::group) {
          for (const auto& [each, pid] : pids) ::kill(pid, signal);
        }
        if (target != Target::worker) std::raise(signal);
      };
}

void check_clean(const Job& job) {
  CHECK(job.survivors() == 0);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

struct PhaseCase {
  std::string phase;
  std::vector<std::string> afterwards;  // ranks do this after they have agreed
  int code;
};

const std::vector<PhaseCase>& phases() {
  static const std::vector<PhaseCase> all{
      {"startup", {"leave=143"}, 143},
      {"load", {"leave=143"}, 143},
      {"train", {"save_parts=5", "leave=75"}, 75},
      {"validate", {"save_parts=5", "leave=75"}, 75},
      {"checkpoint", {"save_parts=5", "leave=75"}, 75},
      {"shutdown", {"finish", "end"}, 143},
  };
  return all;
}

}  // namespace

TEST_CASE("stop: a signal in any phase to any process exits with its code and leaves nothing") {
  constexpr int kWorld = 2;
  for (const PhaseCase& each : phases()) {
    for (const Target target : {Target::supervisor, Target::worker, Target::group}) {
      for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGINT}) {
        CAPTURE(each.phase, name_of(target), signal_name(signal));
        std::vector<std::string> words{"catch_term", "hello", "agree_in=" + each.phase};
        words.insert(words.end(), each.afterwards.begin(), each.afterwards.end());
        Job job(words, kWorld);
        const Outcome outcome = job.run(send(signal, target, kWorld));
        const int code = signal == SIGINT ? 130 : each.code;
        CHECK(outcome.exit_code == code);
        CHECK(outcome.verdict == (code == 130  ? "interrupted"
                                  : code == 75 ? "stopped"
                                               : "terminated"));
        CHECK_FALSE(outcome.first_failure);
        CHECK(outcome.consequences.empty());
        check_clean(job);
      }
    }
  }
}

TEST_CASE("stop: a signal before a worker handles it is a stop without a checkpoint") {
  for (const Target target : {Target::supervisor, Target::worker, Target::group}) {
    for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGINT}) {
      CAPTURE(name_of(target), signal_name(signal));
      Job job({"hello", "announce", "wait"}, 2);
      const Outcome outcome = job.run(send(signal, target, 2));
      CHECK(outcome.exit_code == (signal == SIGINT ? 130 : 143));
      CHECK_FALSE(outcome.first_failure);
      check_clean(job);
    }
  }
}

TEST_CASE("stop: a rank that cannot save makes it a stop without a checkpoint") {
  Job job({"catch_term", "hello", "agree_in=train", "0:leave=75", "1:leave=143"}, 2);
  const Outcome outcome = job.run(send(SIGTERM, Target::supervisor, 2));
  CHECK(outcome.exit_code == 143);
  CHECK(outcome.verdict == "terminated");
  CHECK(outcome.message == "stopped by SIGTERM");
  check_clean(job);
}

TEST_CASE("stop: a saved checkpoint is reported") {
  Job job({"catch_term", "hello", "agree_in=train", "save_parts=5", "leave=75"}, 2);
  const Outcome outcome = job.run(send(SIGUSR1, Target::supervisor, 2));
  CHECK(outcome.stopped_by_signal == SIGUSR1);
  CHECK(outcome.message == "stopped by SIGUSR1 after a checkpoint was saved");
}

TEST_CASE("stop: a save that makes progress is not limited by the grace period") {
  Job job({"catch_term", "hello", "agree_in=train", "report", "save_parts=100", "leave=75"}, 2);
  job.spec.stop_grace_s = 30;
  const HangClock clock(
      job, [] { return true; }, 1);  // the save takes at least 200 s
  CHECK(job.run(send(SIGTERM, Target::supervisor, 2), clock).exit_code == 75);
  check_clean(job);
}

TEST_CASE("stop: a save without progress is killed after the grace period") {
  Job job({"catch_term", "hello", "agree_in=train", "save=5", "linger"}, 2);
  job.spec.stop_grace_s = 0.3;
  const Outcome outcome = job.run(send(SIGTERM, Target::supervisor, 2));
  CHECK(outcome.exit_code == 143);
  CHECK_THAT(outcome.message, Contains("ranks 0, 1 had not exited and got SIGKILL"));
  CHECK_FALSE(outcome.first_failure);
  check_clean(job);
}

TEST_CASE("stop: after a failure, the other ranks have the short grace period") {
  Job job({"catch_term", "hello", "agree_in=train", "0:linger", "1:fail=9"}, 2);
  job.spec.stop_grace_s = 600;
  job.spec.grace_s = 0.3;
  const Outcome outcome = job.run(send(SIGTERM, Target::supervisor, 2));
  CHECK(outcome.exit_code == 143);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  check_clean(job);
}

TEST_CASE("stop: a second signal to one worker ends all immediately") {
  // The signals come from the worker itself: the supervisor forwards only one.
  Job job({"catch_term", "hello", "0:ignore_term", "1:raise=15", "1:raise=10", "wait"}, 2);
  job.spec.stop_grace_s = 600;
  job.spec.grace_s = 0.3;
  const Outcome outcome = job.run();
  CHECK(outcome.exit_code == 143);
  CHECK_FALSE(outcome.first_failure);
  check_clean(job);
}

TEST_CASE("stop: a rank that lost a stopped peer is not the first failure") {
  Job job({"0:catch_term", "hello", "publish_pid", "announce", "0:lose=1", "wait"}, 2);
  const Outcome outcome = job.run(send(SIGTERM, Target::worker, 2));
  CHECK(outcome.exit_code == 143);
  CHECK_FALSE(outcome.first_failure);
  REQUIRE(outcome.consequences.size() == 1);
  CHECK(outcome.consequences[0].rank == 0);
  CHECK(outcome.message == "stopped by SIGTERM");
  check_clean(job);
}

}  // namespace trainctl::launch
