#include "base/error.hpp"
#include "launch/job.hpp"
#include "launch/nodes/coordinator.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "support/catch.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>
#include <vector>

extern char** environ;

// The jobs have two nodes on this machine: the test is the coordinator, and the other node is a
// child process.

namespace trainctl::launch {
namespace {

constexpr KeepaliveTimes kKeepalive{.interval_s = 0.2, .timeout_s = 60};

class TwoNodes {
 public:
  TwoNodes(const std::vector<std::string>& words, int ranks)
      : job(words, 2 * ranks),
        coordinator(Listener({.endpoint = {"127.0.0.1", 0},
                              .run_id = "test",
                              .world_size = 2 * ranks,
                              .nodes = 2}),
                    {2, ranks, "1", "config", "cpu"}, kKeepalive),
        words_(words),
        ranks_(ranks) {
    job.spec.placement.nodes = 2;
    job.spec.coordinator = &coordinator;
    coordinator.set_folder(job.spec.log_folder.string(), "");
  }
  ~TwoNodes() {
    if (other <= 0) return;
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
  }
  TwoNodes(const TwoNodes&) = delete;
  TwoNodes& operator=(const TwoNodes&) = delete;

  void start_other() {
    std::vector<std::string> argv{
        TRAINCTL_FAKE_WORKER,  "join", std::to_string(coordinator.endpoint().port), "2", "1",
        std::to_string(ranks_)};
    argv.insert(argv.end(), words_.begin(), words_.end());
    std::vector<char*> pointers;
    for (std::string& word : argv) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    ::setenv("TRAINCTL_TEST_MARK", job.folder.path().c_str(), 1);
    REQUIRE(::posix_spawn(&other, pointers[0], nullptr, nullptr, pointers.data(), environ) == 0);
    ::unsetenv("TRAINCTL_TEST_MARK");
  }

  Outcome run(const EventHandler& on_event = {}, const Clock& clock = steady_clock()) {
    if (other == 0) start_other();
    return job.run(on_event, clock);
  }

  /// Reports the end to the other node; returns its exit code, or 128 plus the signal that ended
  /// it.
  int finish(const Outcome& outcome) {
    coordinator.nodes().end({outcome.exit_code, outcome.verdict, outcome.message},
                            steady_clock().now());
    int status = 0;
    REQUIRE(::waitpid(std::exchange(other, 0), &status, 0) > 0);
    CHECK(job.survivors() == 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  Job job;
  Coordinator coordinator;
  pid_t other = 0;

 private:
  std::vector<std::string> words_;
  int ranks_;
};

/// Calls `body` once `ranks` ranks are training.
template <class Body>
EventHandler once_all_train(int ranks, Body body) {
  return [=, number = 0](int, const events::Event& event) mutable {
    if (std::holds_alternative<events::Progress>(event) && ++number == ranks) body();
  };
}

}  // namespace

TEST_CASE("nodes: ranks of two nodes are one job with rank numbers and a common store") {
  TwoNodes nodes({"hello", "barrier", "print_env=RANK", "print_env=WORLD_SIZE",
                  "print_env=LOCAL_RANK", "print_env=LOCAL_WORLD_SIZE", "finish"},
                 2);
  const Outcome outcome = nodes.run();
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.message.empty());
  CHECK(nodes.job.count<events::Hello>() == 4);
  CHECK(nodes.job.count<events::Finished>() == 4);
  CHECK(nodes.job.log(3) == "RANK=3\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\n");
  CHECK(nodes.job.log(1) == "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\n");
  CHECK(nodes.finish(outcome) == 0);
}

TEST_CASE("nodes: a rank killed on another node is the first failure, with host, signal and step") {
  TwoNodes nodes({"catch_term", "hello", "barrier", "3:step=41", "3:kill=9", "train"}, 2);
  const Outcome outcome = nodes.run();
  CHECK(outcome.exit_code == 7);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 3);
  CHECK(outcome.first_failure->signal == SIGKILL);
  CHECK(outcome.first_failure->step == 41);
  CHECK_FALSE(outcome.first_failure->host.empty());
  CHECK(nodes.finish(outcome) == 7);
}

TEST_CASE("nodes: an error of a rank on any node ends the job with its kind") {
  for (const int rank : {0, 1}) {
    TwoNodes nodes({"catch_term", "hello", "barrier", std::to_string(rank) + ":fail=9", "train"},
                   1);
    const Outcome outcome = nodes.run();
    CHECK(outcome.exit_code == 9);
    REQUIRE(outcome.first_failure);
    CHECK(outcome.first_failure->rank == rank);
    CHECK(outcome.first_failure->message == "boom");
    CHECK(nodes.finish(outcome) == 9);
  }
}

TEST_CASE("nodes: a killed supervisor of another node is named, and its ranks are killed") {
  TwoNodes nodes({"catch_term", "hello", "barrier", "announce", "train"}, 2);
  const Outcome outcome = nodes.run(once_all_train(4, [&] { ::kill(nodes.other, SIGKILL); }));
  CHECK(outcome.exit_code == 7);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 2);
  CHECK_THAT(outcome.message, Contains("node 1 (far) is lost: its connection was closed"));
  CHECK(outcome.first_failure->pid > 0);
  CHECK(outcome.first_failure->host == "far");
  CHECK_THAT(outcome.message, Contains("on far) failed at step"));
  CHECK(nodes.finish(outcome) == 128 + SIGKILL);
}

TEST_CASE("nodes: a stop signal to either supervisor lets the ranks of both save and exit") {
  for (const bool at_coordinator : {true, false}) {
    for (const int signal : {SIGTERM, SIGINT}) {
      TwoNodes nodes({"catch_term", "hello", "agree_in=train", "save_parts=5", "leave=75"}, 2);
      const Outcome outcome = nodes.run(
          once_all_train(4, [&] { ::kill(at_coordinator ? ::getpid() : nodes.other, signal); }));
      const int code = signal == SIGINT ? 130 : 75;
      CHECK(outcome.exit_code == code);
      CHECK_FALSE(outcome.first_failure);
      CHECK(nodes.finish(outcome) == code);
    }
  }
}

TEST_CASE(
    "nodes: a node that never joins ends the job with 8, named with its ranks and the endpoint") {
  TwoNodes nodes({"hello", "wait"}, 2);
  nodes.other = -1;
  nodes.job.spec.init_timeout_s = 1000;
  const Outcome outcome = nodes.run({}, LeapingClock(nodes.job, 2));
  CHECK(outcome.exit_code == 8);
  CHECK_THAT(outcome.message, Contains("rank 2 (not started) failed"));
  CHECK_THAT(outcome.message, Contains("ranks 2, 3 of 4") &&
                                  Contains("node 1 (ranks 2 to 3) has not joined") &&
                                  Contains("--rdzv-endpoint 127.0.0.1:" +
                                           std::to_string(nodes.coordinator.endpoint().port)));
  CHECK(nodes.job.survivors() == 0);
}

TEST_CASE(
    "nodes: a hung rank on another node is the failure, with the stacks that its node wrote") {
  TwoNodes nodes({"catch_term", "hello", "barrier", "step=3", "1:stop", "report", "train"}, 1);
  nodes.job.spec.hang_timeout_s = 5;
  const HangClock clock(
      nodes.job, [&] { return nodes.job.is_stopped(1); }, 0.02);
  const Outcome outcome = nodes.run({}, clock);
  CHECK(outcome.exit_code == 8);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK_THAT(outcome.message, Contains("no progress") && Contains("rank_1.stacks.txt"));
  CHECK(nodes.finish(outcome) == 8);
}

TEST_CASE("nodes: an exception of the event handler ends the ranks of the other node") {
  TwoNodes nodes({"hello", "barrier", "ignore_term", "announce", "wait"}, 1);
  const EventHandler full_disk =
      once_all_train(2, [] { throw Error(ErrorKind::resource, "disk full"); });
  CHECK_THROWS_WITH(nodes.run(full_disk), "disk full");
  CHECK(nodes.finish({.exit_code = 11, .verdict = "failed", .message = "disk full"}) == 11);
}

TEST_CASE("nodes: a node that joins after the coordinator has failed receives the reason") {
  TwoNodes nodes({"hello", "wait"}, 1);
  nodes.start_other();
  nodes.coordinator.end({11, "failed", "the folder is locked"}, 60);
  CHECK_FALSE(nodes.coordinator.nodes().has_missing_nodes());
  int status = 0;
  REQUIRE(::waitpid(std::exchange(nodes.other, 0), &status, 0) > 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 11);
}

TEST_CASE("nodes: a failed coordinator waits for other nodes at most for its time limit") {
  TwoNodes nodes({"hello", "wait"}, 1);
  nodes.coordinator.end({11, "failed", "no"}, 0.1);
  CHECK(nodes.coordinator.nodes().has_missing_nodes());
  nodes.coordinator.end({11, "failed", "no"}, 3600, [] { return true; });
  CHECK(nodes.coordinator.nodes().has_missing_nodes());
}

TEST_CASE("nodes: the same nodes run further attempts") {
  TwoNodes nodes({"catch_term", "hello", "barrier", "finish"}, 2);
  nodes.start_other();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const Outcome outcome = nodes.run();
    CHECK(outcome.exit_code == 0);
    CHECK(nodes.job.count<events::Finished>() == 4 * attempt);
    if (attempt == 3) CHECK(nodes.finish(outcome) == 0);
  }
}

}  // namespace trainctl::launch
