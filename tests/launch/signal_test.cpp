#include "launch/job.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervisor_process.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>

#include <csignal>

namespace trainctl::launch {
namespace {

// Raises `signal` in the supervisor once every rank has sent Hello.
EventHandler raise_when_ready(int signal, int world) {
  return [signal, world, ready = 0](int, const events::Event& event) mutable {
    if (std::holds_alternative<events::Hello>(event) && ++ready == world) std::raise(signal);
  };
}

TEST_CASE("SignalGuard: receives a stop signal that a nested guard has taken") {
  {
    SignalGuard outer;
    {
      SignalGuard inner;
      CHECK_FALSE(inner.received_stop());
      std::raise(SIGTERM);
      CHECK(inner.take() == std::vector{SIGTERM});
    }
    CHECK(outer.take().empty());
    CHECK(outer.received_stop());
  }
  SignalGuard next;
  CHECK_FALSE(next.received_stop());
}

}  // namespace

TEST_CASE("stop: before there is anything to save, a stop signal exits immediately with its code") {
  const std::vector<std::pair<int, int>> codes{
      {SIGINT, 130}, {SIGTERM, 143}, {SIGUSR1, 143}, {SIGUSR2, 143}, {SIGHUP, 0}};
  for (const auto& [signal, code] : codes) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::signal(SIGHUP, SIG_IGN);
      exit_on_stop_signals();
      std::raise(signal);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
  }
}

TEST_CASE("stop: a stop signal ends the job cleanly with its documented code") {
  const std::vector<std::pair<int, int>> codes{
      {SIGINT, 130}, {SIGTERM, 143}, {SIGUSR1, 143}, {SIGUSR2, 143}, {SIGHUP, 143}};
  for (const auto& [signal, code] : codes) {
    Job job({"catch_term", "hello", "train"}, 2);
    const Outcome outcome = job.run(raise_when_ready(signal, 2));
    CHECK(outcome.exit_code == code);
    CHECK(outcome.verdict == (code == 130 ? "interrupted" : "terminated"));
    CHECK(outcome.stopped_by_signal == signal);
    CHECK_FALSE(outcome.first_failure);
    CHECK(job.count<events::Finished>() == 2);
    CHECK(job.survivors() == 0);
  }
}

TEST_CASE("stop: workers that ignore the stop are killed after the grace period") {
  Job job({"ignore_term", "hello", "wait"}, 2);
  job.spec.stop_grace_s = 0.3;
  const Outcome outcome = job.run(raise_when_ready(SIGTERM, 2));
  CHECK(outcome.exit_code == 143);
  CHECK_FALSE(outcome.first_failure);
  CHECK(job.survivors() == 0);
}

TEST_CASE("stop: a second signal kills immediately") {
  Job job({"ignore_term", "hello", "wait"}, 2);
  job.spec.stop_grace_s = 600;
  EventHandler twice = [ready = 0](int, const events::Event&) mutable {
    if (++ready < 2) return;
    std::raise(SIGINT);
    std::raise(SIGTERM);
  };
  const Outcome outcome = job.run(twice);
  CHECK((outcome.exit_code == 130 ||
         outcome.exit_code == 143));  // the kernel decides which of the two arrives first
  CHECK(job.survivors() == 0);
}

TEST_CASE("stop: a worker that fails while the job stops is reported, and the code stays") {
  Job job({"catch_term", "hello", "0:train", "1:until_asked", "1:fail=9"}, 2);
  const Outcome outcome = job.run(raise_when_ready(SIGINT, 2));
  CHECK(outcome.exit_code == 130);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK_THAT(outcome.message, Contains("stopped by SIGINT; meanwhile rank 1"));
}

TEST_CASE("stop: a stop signal together with a failure does not hide the failure") {
  Job job({"hello", "0:wait", "1:fail=9"}, 2);
  const Outcome outcome = job.run([](int, const events::Event& event) {
    if (std::holds_alternative<events::Failed>(event)) std::raise(SIGTERM);
  });
  CHECK(outcome.exit_code == 9);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK_FALSE(outcome.stopped_by_signal);
  CHECK(job.survivors() == 0);
}

TEST_CASE("stop: a stop signal to one worker stops the job like one to the supervisor") {
  Job job({"catch_term", "hello", "train"}, 2);
  const Outcome outcome = job.run([](int rank, const events::Event& event) {
    const auto* hello = std::get_if<events::Hello>(&event);
    if (rank == 1 && hello != nullptr) ::kill(static_cast<pid_t>(hello->pid), SIGTERM);
  });
  CHECK(outcome.exit_code == 143);
  CHECK_FALSE(outcome.first_failure);
}

TEST_CASE("SignalGuard: restores the caller's mask, dispositions and ignored SIGHUP") {
  sigset_t before;
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  ::signal(SIGCHLD, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  Job job({"hello", "finish"});
  CHECK(job.run([](int, const events::Event&) { std::raise(SIGHUP); }).exit_code == 0);
  CHECK(::signal(SIGCHLD, SIG_DFL) == SIG_IGN);
  CHECK(::signal(SIGHUP, SIG_DFL) == SIG_IGN);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal)
    CHECK(sigismember(&before, signal) == sigismember(&after, signal));
}

TEST_CASE("SignalGuard: an outer guard holds late signals until results are written") {
  SignalGuard outer;
  Job job({"hello", "finish"});
  CHECK(job.run().exit_code == 0);
  std::raise(SIGTERM);
  CHECK(outer.take() == std::vector<int>{SIGTERM});
  std::raise(SIGINT);  // the destructor of the guard drops it
}

TEST_CASE("stop: Ctrl-C at a terminal reaches only the supervisor, so workers exit cleanly") {
  Job job({});
  SupervisorProcess supervisor(job, {"catch_term", "hello", "train"}, 2);
  supervisor.wait_for_hellos(2);
  for (const int pid : job.processes()) {
    if (pid != supervisor.pid()) CHECK(::getpgid(pid) == pid);
  }
  ::kill(supervisor.pid(), SIGINT);
  const int status = supervisor.wait();
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(job.survivors() == 0);
}

}  // namespace trainctl::launch
