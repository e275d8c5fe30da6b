#include "base/files.hpp"
#include "launch/process/child.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <vector>

namespace trainctl::launch {
namespace {

// Sets the worker's variables for a test and removes them in the destructor.
class SetEnvironment {
 public:
  explicit SetEnvironment(std::map<std::string, std::string> changes) {
    std::map<std::string, std::string> values{{kRank, "1"},
                                              {kWorldSize, "4"},
                                              {kLocalRank, "1"},
                                              {kLocalWorldSize, "2"},
                                              {kEventFd, std::to_string(open_.get())}};
    for (auto& [name, value] : changes) values[name] = value;
    for (const char* name : kNames) ::unsetenv(name);
    for (const auto& [name, value] : values) {
      if (value != "unset") ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~SetEnvironment() {
    for (const char* name : kNames) ::unsetenv(name);
  }

 private:
  static constexpr std::array kNames{kRank,          kWorldSize,   kLocalRank,   kLocalWorldSize,
                                     kEventFd,       kHeartbeatFd, kStoreFd,     kStacksFd,
                                     kSupervisorPid, kAccelerator, kGroupAddress};
  Fd open_{::dup(STDOUT_FILENO)};
};

std::string environment_error(std::map<std::string, std::string> changes) {
  const SetEnvironment environment(std::move(changes));
  try {
    read_worker_env();
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  }
  return "accepted";
}

enum class From { others, supervisor };

// Returns the exit code of a worker that handles stops late: the flag, unless it ends before.
int code_after(const std::vector<int>& signals, From from = From::others,
               void (*hangup)(int) = SIG_DFL) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGHUP, hangup);
    ::unsetenv(kSupervisorPid);
    if (from == From::supervisor) ::setenv(kSupervisorPid, std::to_string(::getpid()).c_str(), 1);
    install_stop_flag();
    for (const int signal : signals) std::raise(signal);
    ::_exit(*stop_signal());
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("worker environment: rank and world size are read") {
  const SetEnvironment environment({{kSupervisorPid, std::to_string(::getppid())}});
  const WorkerEnv env = read_worker_env();
  CHECK(env.supervised);
  CHECK(env.rank == 1);
  CHECK(env.world_size == 4);
  CHECK(env.local_world_size == 2);
  CHECK(env.event_fd > 2);
  CHECK(env.heartbeat_fd == -1);
  CHECK(env.store_fd == -1);
  CHECK(env.stacks_fd == -1);
  CHECK(env.accelerator.empty());
}

TEST_CASE("worker environment: the accelerator is read") {
  const SetEnvironment environment(
      {{kSupervisorPid, std::to_string(::getppid())}, {kAccelerator, "gpu"}});
  CHECK(read_worker_env().accelerator == "gpu");
}

TEST_CASE("worker environment: the address for other nodes is read") {
  const std::string parent = std::to_string(::getppid());
  for (const char* address : {"10.0.0.1", "fd00::1"}) {
    const SetEnvironment environment({{kSupervisorPid, parent}, {kGroupAddress, address}});
    CHECK(read_worker_env().group_address == address);
  }
  CHECK_THAT(environment_error({{kGroupAddress, "node1"}}),
             Contains("TRAINCTL_GROUP_ADDRESS must be a numeric address, got 'node1'"));
}

TEST_CASE("worker environment: a worker started by hand is rank 0 of 1") {
  const SetEnvironment environment({{kEventFd, "unset"}, {kRank, "garbage"}});
  const WorkerEnv env = read_worker_env();
  CHECK_FALSE(env.supervised);
  CHECK(env.rank == 0);
  CHECK(env.world_size == 1);
}

TEST_CASE("worker environment: an invalid variable is an error that names it") {
  for (const char* garbage :
       {"", "x", "1x", " 1", "+1", "-1", "4", "99999999999999999999", "1.0", "\x1b"}) {
    CHECK_THAT(environment_error({{kRank, garbage}}),
               Contains("2 environment variable RANK must be") && Contains("from 0 to 3"));
  }
  CHECK_THAT(environment_error({{kRank, "unset"}}), Contains("RANK is not set"));
  CHECK_THAT(environment_error({{kWorldSize, "0"}}), Contains("WORLD_SIZE"));
  CHECK_THAT(environment_error({{kLocalRank, "2"}}),
             Contains("LOCAL_RANK must be a whole number from 0 to 1, got '2'"));
  CHECK_THAT(environment_error({{kEventFd, "987654"}}),
             Contains("TRAINCTL_EVENT_FD contains the file descriptor 987654, which is not open"));
  CHECK_THAT(environment_error({{kStoreFd, "0"}}), Contains("TRAINCTL_STORE_FD"));
  CHECK_THAT(environment_error({{kAccelerator, "tpu"}}),
             Contains("2 environment variable TRAINCTL_ACCELERATOR must be cpu or gpu, got 'tpu'"));
}

TEST_CASE("worker environment: a worker without its supervisor does not start") {
  CHECK_THAT(environment_error({{kSupervisorPid, std::to_string(::getpid())}}),
             Contains("7 the trainctl process that started this rank"));
}

TEST_CASE("stop flag: stores the first stop signal") {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP}) {
    CHECK(code_after({signal}) == signal);
    CHECK(code_after({signal, signal}) == signal);  // a repetition
  }
}

TEST_CASE("stop flag: a second signal ends a worker immediately") {
  CHECK(code_after({SIGTERM, SIGUSR1}) == 143);
  CHECK(code_after({SIGINT, SIGTERM}) == 130);
  CHECK(code_after({SIGUSR2, SIGINT}) == 143);
}

TEST_CASE("stop flag: a signal that the supervisor forwards does not count as a second signal") {
  // The child signals itself, so it is its own supervisor.
  CHECK(code_after({SIGUSR1, SIGTERM, SIGTERM}, From::supervisor) == SIGUSR1);
}

TEST_CASE("stop flag: a worker under nohup ignores SIGHUP") {
  CHECK(code_after({SIGHUP}, From::others, SIG_IGN) == 0);
}

}  // namespace trainctl::launch
