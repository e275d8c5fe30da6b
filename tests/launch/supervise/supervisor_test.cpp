#include "launch/supervise/supervisor.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "launch/job.hpp"
#include "support/catch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace trainctl::launch {
namespace {

void check_nothing_left(const Job& job) {
  CHECK(job.survivors() == 0);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // there are no zombies
}

}  // namespace

TEST_CASE("supervise: ranks are pinned to dedicated cores and have TRAINCTL_OWN_CORES") {
  const std::vector<int> allowed = allowed_cores();
  Job job({"hello", "print_cores", "print_env=TRAINCTL_OWN_CORES", "finish"}, 2);
  job.spec.cores = {{allowed.front()}, {allowed.back()}};
  CHECK(job.run().exit_code == 0);
  CHECK(job.log(0) == fmt::format("cores {}\nTRAINCTL_OWN_CORES=1\n", allowed.front()));
  CHECK(job.log(1) == fmt::format("cores {}\nTRAINCTL_OWN_CORES=1\n", allowed.back()));
  job.spec.cores = {};
  job.spec.environment["TRAINCTL_OWN_CORES"] = "1";  // another run has left it
  CHECK(job.run().exit_code == 0);
  const auto all = fmt::format("cores {}\nTRAINCTL_OWN_CORES=\n", fmt::join(allowed, " "));
  CHECK_THAT(job.log(1), EndsWith(all));
  CHECK(allowed_cores() == allowed);  // this process keeps its affinity
}

TEST_CASE("supervise: a job whose ranks all finish is ok, for 1, 2 and 4 ranks") {
  const std::size_t descriptors = open_descriptors();
  for (const int world : {1, 2, 4}) {
    Job job({"hello", "step=3", "finish"}, world);
    const Outcome outcome = job.run();
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.verdict == "ok");
    CHECK(outcome.message.empty());
    CHECK_FALSE(outcome.first_failure);
    CHECK(job.count<events::Hello>() == world);
    CHECK(job.count<events::Finished>() == world);
    check_nothing_left(job);
  }
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("supervise: a rank killed by a signal ends the job with 7 and is named with its step") {
  for (const int signal : {SIGKILL, SIGSEGV, SIGABRT}) {
    for (const int world : {1, 2, 4}) {
      const int victim = world - 1;
      const std::string last = std::to_string(victim);
      Job job({"catch_term", "hello", last + ":step=41", last + ":kill=" + std::to_string(signal),
               "train"},
              world);
      const Outcome outcome = job.run();
      CHECK(outcome.exit_code == 7);
      CHECK(outcome.verdict == "failed");
      REQUIRE(outcome.first_failure);
      CHECK(outcome.first_failure->rank == victim);
      CHECK(outcome.first_failure->signal == signal);
      CHECK(outcome.first_failure->signal_name == signal_name(signal));
      CHECK(outcome.first_failure->step == 41);
      CHECK(outcome.first_failure->phase == "train");
      CHECK(outcome.first_failure->pid > 0);
      CHECK_THAT(outcome.message,
                 Contains("rank " + last) && Contains(signal_name(signal)) && Contains("step 41"));
      CHECK(outcome.consequences.empty());
      check_nothing_left(job);
    }
  }
}

TEST_CASE("supervise: repeatedly killed ranks leave no process or descriptor") {
  const std::size_t descriptors = open_descriptors();
  for (int i = 0; i < 50; ++i) {
    Job job({"hello", "1:sleep_ms=" + std::to_string(i % 7), "1:kill=9", "grandchild", "wait"}, 2);
    const Outcome outcome = job.run();
    REQUIRE(outcome.exit_code == 7);
    REQUIRE(outcome.first_failure);
    REQUIRE(outcome.first_failure->rank == 1);
    REQUIRE(outcome.first_failure->signal == SIGKILL);
    REQUIRE(job.survivors() == 0);
  }
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("supervise: an unexplained SIGKILL mentions memory") {
  Job job({"hello", "kill=9"});
  CHECK_THAT(job.run().message, Contains("SIGKILL") && Contains("memory"));
}

TEST_CASE("supervise: an error of a worker ends the job with its kind and message") {
  for (const int kind : {1, 2, 6, 8, 9, 10, 11}) {
    Job job({"hello", "print=last words", "1:fail=" + std::to_string(kind), "wait"}, 2);
    const Outcome outcome = job.run();
    CHECK(outcome.exit_code == kind);
    CHECK(outcome.verdict == (kind == 6 ? "diverged" : kind == 8 ? "hang" : "failed"));
    REQUIRE(outcome.first_failure);
    CHECK(outcome.first_failure->rank == 1);
    CHECK(outcome.first_failure->kind == kind);
    CHECK(outcome.first_failure->message == "boom");
    CHECK(outcome.first_failure->step == 3);
    CHECK(outcome.first_failure->log_tail == "last words");
    CHECK(outcome.first_failure->exit_code == kind);
  }
}

TEST_CASE("supervise: the error file replaces an event that did not arrive") {
  Job job({"hello"});
  job.spec.argv.push_back("write_error=" + (job.folder / "logs").string());
  job.spec.argv.push_back("exit=9");
  const Outcome outcome = job.run();
  CHECK(outcome.exit_code == 9);
  CHECK(outcome.first_failure->message == "row 7 is damaged");

  job.spec.argv = {TRAINCTL_FAKE_WORKER, "hello", "exit=3"};
  CHECK(job.run().first_failure->message !=
        "row 7 is damaged");  // the file of the previous run is ignored
}

TEST_CASE("supervise: an exit without a report is a failed rank") {
  for (const int code : {0, 1, 3, 4, 5, 99}) {
    Job job({"hello", "exit=" + std::to_string(code)});
    const Outcome outcome = job.run();
    CHECK(outcome.exit_code == 7);
    REQUIRE(outcome.first_failure);
    CHECK(outcome.first_failure->exit_code == code);
    CHECK_FALSE(outcome.first_failure->message.empty());
  }
}

TEST_CASE("supervise: workers get their rank, policies and descriptors, and no others") {
  ::unsetenv("OMP_WAIT_POLICY");
  Job job({"hello", "print_env=RANK", "print_env=WORLD_SIZE", "print_env=LOCAL_RANK",
           "print_env=OMP_WAIT_POLICY", "print_env=KINETO_LOG_LEVEL",
           "print_env=CUBLAS_WORKSPACE_CONFIG", "print_env=CUDA_DEVICE_ORDER",
           "print_env=TRAINCTL_ENV_READY", "print_env=LD_LIBRARY_PATH", "print_env=OMP_NUM_THREADS",
           "print_fds", "finish"},
          2);
  ::setenv("LD_LIBRARY_PATH", "/of/the/user", 1);
  job.spec.library_path = {"/opt/a", "/opt/b"};
  job.spec.environment["OMP_NUM_THREADS"] = "3";
  const Fd leaked(::dup(STDOUT_FILENO));  // without close-on-exec
  CHECK(job.run().exit_code == 0);
  ::unsetenv("LD_LIBRARY_PATH");
  const std::string log = job.log(1);
  CHECK_THAT(
      log,
      Contains("RANK=1\nWORLD_SIZE=2\nLOCAL_RANK=1\nOMP_WAIT_POLICY=passive\nKINETO_LOG_LEVEL=5\n"
               "CUBLAS_WORKSPACE_CONFIG=:4096:8\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n"
               "TRAINCTL_ENV_READY=1\n"
               "LD_LIBRARY_PATH=/opt/a:/opt/b:/of/the/user\nOMP_NUM_THREADS=3\n"));
  CHECK(std::ranges::count(log.substr(log.find("fd ")), '\n') ==
        7);  // 0, 1, 2, events, heartbeat, store, stacks
}

TEST_CASE("supervise: the job's OpenMP wait policy applies unless the user has set one") {
  ::unsetenv("OMP_WAIT_POLICY");
  Job job({"hello", "print_env=OMP_WAIT_POLICY", "print_env=GOMP_SPINCOUNT", "finish"});
  job.spec.omp_wait_policy = launch::OmpWaitPolicy::spin;
  CHECK(job.run().exit_code == 0);
  ::setenv("GOMP_SPINCOUNT", "7", 1);
  CHECK(job.run().exit_code == 0);
  ::unsetenv("GOMP_SPINCOUNT");
  ::setenv("OMP_WAIT_POLICY", "active", 1);
  CHECK(job.run().exit_code == 0);
  ::unsetenv("OMP_WAIT_POLICY");
  CHECK(job.log(0) ==
        "OMP_WAIT_POLICY=\nGOMP_SPINCOUNT=30000\nOMP_WAIT_POLICY=\nGOMP_SPINCOUNT=7\n"
        "OMP_WAIT_POLICY=active\nGOMP_SPINCOUNT=\n");
}

TEST_CASE("supervise: listed variables keep the user's value") {
  ::setenv("OMP_WAIT_POLICY", "active", 1);
  ::setenv("OMP_NUM_THREADS", "7", 1);
  Job job({"hello", "print_env=OMP_WAIT_POLICY", "print_env=OMP_NUM_THREADS", "finish"});
  job.spec.environment["OMP_NUM_THREADS"] = "3";
  job.spec.user_variables = {"OMP_NUM_THREADS"};
  CHECK(job.run().exit_code == 0);
  job.spec.user_variables = {};
  CHECK(job.run().exit_code == 0);
  ::unsetenv("OMP_WAIT_POLICY");
  ::unsetenv("OMP_NUM_THREADS");
  CHECK(job.log(0) ==
        "OMP_WAIT_POLICY=active\nOMP_NUM_THREADS=7\nOMP_WAIT_POLICY=active\nOMP_NUM_THREADS=3\n");
}

TEST_CASE(
    "supervise: a worker that does not report in time ends the job with 8, listing the missing "
    "ranks") {
  Job job({"0:hello", "2:hello", "wait"}, 4);
  job.spec.init_timeout_s = 1000;
  const Outcome outcome = job.run({}, LeapingClock(job, 2));
  CHECK(outcome.exit_code == 8);
  CHECK(outcome.verdict == "hang");
  CHECK_THAT(outcome.message, Contains("ranks 1, 3 of 4"));
  check_nothing_left(job);
}

TEST_CASE("supervise: a program that cannot be started is named, and no rank is left") {
  Job job({});
  job.spec.argv = {"/no/such/program"};
  const std::size_t descriptors = open_descriptors();
  CHECK_THROWS_WITH(job.run(), Contains("/no/such/program") && Contains("No such file"));
  job.spec.argv = {TRAINCTL_FAKE_WORKER, "hello", "wait"};
  std::filesystem::create_directories(job.spec.log_folder /
                                      "rank_2.log");  // a folder, so rank 2 cannot write it
  job.spec.world_size = 3;
  CHECK_THROWS_WITH(job.run(), Contains("rank_2.log"));
  check_nothing_left(job);
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("supervise: an exception of a handler ends the job and is passed on") {
  Job job({"hello", "ignore_term", "wait"}, 2);
  const EventHandler full_disk = [](int, const events::Event&) {
    throw Error(ErrorKind::resource, "disk full");
  };
  CHECK_THROWS_WITH(job.run(full_disk), "disk full");
  check_nothing_left(job);
}

TEST_CASE("supervise: children of workers are killed with the job, even if they ignore signals") {
  Job job({"catch_term", "grandchild", "daemon", "hello", "sleep_ms=50", "finish"}, 2);
  CHECK(job.run().exit_code == 0);
  check_nothing_left(job);
}

TEST_CASE("supervise: an invalid event line is an unexpected failure") {
  Job job({"hello", "1:garbage", "wait"}, 2);
  const Outcome outcome = job.run();
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.first_failure->rank == 1);
  CHECK_THAT(outcome.message, Contains("\\x01 this is no event"));

  Job endless({"hello", "long_line"});
  const Outcome cut = endless.run();
  CHECK(cut.exit_code == 1);
  CHECK_THAT(cut.message, Contains("1 MiB"));
  check_nothing_left(endless);
}

TEST_CASE("supervise: a worker that floods its pipe does not delay other ranks") {
  Job job({"1:catch_term", "hello", "0:flood", "1:until_asked", "1:fail=9"}, 2);
  int warnings = 0;
  int other = 0;
  // Rank 1 is asked to fail once much of the flood has arrived and the supervisor has continued.
  const Outcome outcome = job.run([&](int rank, const events::Event& event) {
    if (const auto* hello = std::get_if<events::Hello>(&event); hello != nullptr && rank == 1)
      other = static_cast<int>(hello->pid);
    if (std::holds_alternative<events::Warning>(event)) ++warnings;
    if (warnings > 100 && job.ticks >= 2 && other != 0) ::kill(std::exchange(other, 0), SIGTERM);
  });
  CHECK(outcome.exit_code == 9);
  CHECK(outcome.first_failure->rank == 1);
}

TEST_CASE("supervise: a worker that closes its pipe has not finished") {
  Job job({"hello", "close_pipe", "sleep_ms=300", "exit=0"});
  const Outcome outcome = job.run();
  CHECK(outcome.exit_code == 7);
  CHECK_THAT(outcome.message, Contains("did not report that it had finished"));
}

TEST_CASE(
    "supervise: ranks meet through the store, and one that breaks its protocol is disconnected") {
  for (const int world : {2, 4}) {
    Job job({"hello", "barrier", "finish"}, world);
    CHECK(job.run().exit_code == 0);
  }
  Job job({"hello", "1:break_store_protocol", "sleep_ms=100", "finish"}, 2);
  CHECK(job.run().exit_code == 0);
  REQUIRE(job.count<events::Warning>() == 1);
  for (const auto& [rank, event] : job.events) {
    if (const auto* warning = std::get_if<events::Warning>(&event)) {
      CHECK(rank == 1);
      CHECK_THAT(warning->message, Contains("trainctl closed the connection of rank 1"));
    }
  }
}

}  // namespace trainctl::launch
