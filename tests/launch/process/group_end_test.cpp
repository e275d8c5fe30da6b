#include "launch/job.hpp"
#include "launch/process/child.hpp"
#include "launch/supervisor_process.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

namespace trainctl::launch {
namespace {

/// Returns the processes whose environment has this rank.
std::vector<int> ranks_of(const Job& job, int rank) {
  std::vector<int> found;
  const std::string wanted = std::string(1, '\0') + "RANK=" + std::to_string(rank) + '\0';
  for (const int pid : job.processes()) {
    const std::string all = contents("/proc/" + std::to_string(pid) + "/environ");
    if ((std::string(1, '\0') + all + '\0').find(wanted) != std::string::npos) found.push_back(pid);
  }
  return found;
}

}  // namespace

TEST_CASE("process group: processes of workers do not outlive a killed supervisor") {
  for (int i = 0; i < 5; ++i) {
    const Job job({});
    SupervisorProcess supervisor(job, {"end_group", "grandchild", "hello", "wait"}, 2);
    supervisor.wait_for_hellos(2);
    ::kill(supervisor.pid(), SIGKILL);
    supervisor.wait();
    REQUIRE(job.survivors() == 0);
  }
}

TEST_CASE(
    "process group: child processes do not outlive their worker, and the outcome is unchanged") {
  for (const char* last : {"kill=9", "kill=11", "finish"}) {
    Job job({"end_group", "grandchild", "hello", last}, 2);
    const Outcome outcome = job.run();
    CHECK(outcome.exit_code == (std::string(last) == "finish" ? 0 : 7));
    CHECK(job.survivors() == 0);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  }
}

TEST_CASE("process group: a stop reaches the worker, and the watching process has no rank") {
  Job job({"end_group", "catch_term", "hello", "until_asked", "leave=143"});
  std::size_t ranks = 0;
  std::size_t processes = 0;
  const Outcome outcome = job.run([&](int, const events::Event& event) {
    const auto* hello = std::get_if<events::Hello>(&event);
    if (hello == nullptr) return;
    ranks = ranks_of(job, 0).size();
    processes = job.processes().size();
    ::kill(static_cast<pid_t>(-hello->pid), SIGTERM);  // the whole group
  });
  CHECK(ranks == 1);
  CHECK(processes == 2);
  CHECK(outcome.exit_code == 143);
  CHECK(job.survivors() == 0);
}

TEST_CASE("process group: kill_group_on_exit fails for a process that is not a group leader") {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(kill_group_on_exit() ? 1 : 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace trainctl::launch
