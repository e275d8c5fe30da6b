#include "launch/job.hpp"
#include "launch/supervisor_process.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

// The faults are random, from a fixed seed. TRAINCTL_LAUNCHER_KILLS and TRAINCTL_MIXED_FAULTS set
// their number, and TRAINCTL_LONG=1 means many.

namespace trainctl::launch {
namespace {

using Random = std::mt19937;

int below(Random& random, int end) { return std::uniform_int_distribution(0, end - 1)(random); }

void wait_at_random(Random& random, int most_ms) {
  std::this_thread::sleep_for(std::chrono::microseconds(below(random, most_ms * 1000)));
}

/// Returns all files in the folder of a job except the logs of its ranks.
std::vector<std::string> unexpected_files(const Job& job) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(job.folder.path())) {
    const std::string name = entry.path().filename().string();
    const bool log = name.starts_with("rank_") && name.ends_with(".log");
    if (!entry.is_directory() && !log) found.push_back(name);
  }
  return found;
}

std::set<std::string> shared_memory() {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find("trainctl") != std::string::npos) names.insert(name);
  }
  return names;
}

enum class Moment { at_once, starting, training, stopping, all_at_random, end };

void kill_at(Moment moment, SupervisorProcess& supervisor, const Job& job, Random& random) {
  if (moment == Moment::training || moment == Moment::stopping) supervisor.wait_for_hellos(2);
  if (moment == Moment::stopping) ::kill(supervisor.pid(), SIGTERM);
  if (moment != Moment::at_once) wait_at_random(random, 20);
  if (moment == Moment::all_at_random) {
    std::vector<int> pids = job.processes();
    std::ranges::shuffle(pids, random);
    const int victims = pids.empty() ? 0 : below(random, static_cast<int>(pids.size()) + 1);
    for (int i = 0; i < victims; ++i) ::kill(pids[static_cast<std::size_t>(i)], SIGKILL);
  }
  ::kill(supervisor.pid(), SIGKILL);
}

}  // namespace

TEST_CASE("fault: a launcher killed at any time leaves no process and no file") {
  const std::set<std::string> shared_before = shared_memory();
  const int kills = repetitions("TRAINCTL_LAUNCHER_KILLS", 40, 200);
  Random random(1);
  for (int i = 0; i < kills; ++i) {
    const auto moment = static_cast<Moment>(i % static_cast<int>(Moment::end));
    CAPTURE(i, static_cast<int>(moment));
    Job job({});
    SupervisorProcess supervisor(job, {"ignore_term", "hello", "publish_pid", "step=3", "wait"}, 2);
    kill_at(moment, supervisor, job, random);
    supervisor.wait();
    REQUIRE(job.survivors() == 0);
    CHECK(unexpected_files(job).empty());
  }
  CHECK(shared_memory() == shared_before);
}

namespace {

struct Fault {
  const char* word;
  int code;        // of the job
  int signal = 0;  // 0: it exits normally
  int own_exit = 0;
};

constexpr std::array<Fault, 9> kFaults{{{"kill=9", 7, SIGKILL},
                                        {"kill=11", 7, SIGSEGV},
                                        {"kill=6", 7, SIGABRT},
                                        {"kill=7", 7, SIGBUS},
                                        {"kill=8", 7, SIGFPE},
                                        {"exit=3", 7, 0, 3},
                                        {"fail=9", 9, 0, 9},
                                        {"fail=6", 6, 0, 6},
                                        {"exit=0", 7, 0, 0}}};

struct Plan {
  Fault fault;
  int world;
  int victim;
  int step;
};

/// The other ranks continue or report that they lost a peer.
std::vector<std::string> words_of(const Plan& plan, Random& random) {
  const std::string victim = std::to_string(plan.victim);
  std::vector<std::string> words{"catch_term", "hello", "publish_pid"};
  for (int rank = 0; rank < plan.world; ++rank) {
    if (rank == plan.victim) continue;
    const std::string reaction = below(random, 3) == 0 ? ":train" : ":lose=" + victim;
    words.push_back(std::to_string(rank) + reaction);
  }
  words.push_back(victim + ":step=" + std::to_string(plan.step));
  words.push_back(victim + ":sleep_ms=" + std::to_string(below(random, 20)));
  words.push_back(victim + ":" + plan.fault.word);
  return words;
}

void check_cause(const Outcome& outcome, const Plan& plan) {
  CHECK(outcome.exit_code == plan.fault.code);
  REQUIRE(outcome.first_failure);
  const events::RankFailure& cause = *outcome.first_failure;
  CHECK(cause.rank == plan.victim);
  CHECK(cause.pid > 0);
  CHECK_FALSE(cause.host.empty());
  CHECK(cause.step == plan.step);
  CHECK(cause.phase == "train");
  if (plan.fault.signal != 0) {
    CHECK(cause.signal == plan.fault.signal);
    CHECK(cause.signal_name == signal_name(plan.fault.signal));
  } else {
    CHECK(cause.exit_code == plan.fault.own_exit);
  }
  for (const events::RankFailure& other : outcome.consequences) CHECK(other.rank != plan.victim);
}

}  // namespace

TEST_CASE("fault: of mixed faults, the first cause is named with rank, signal or code, and step") {
  const int faults = repetitions("TRAINCTL_MIXED_FAULTS", 20, 100);
  Random random(2);
  for (int i = 0; i < faults; ++i) {
    Plan plan{kFaults.at(static_cast<std::size_t>(i) % kFaults.size()), 2 + below(random, 3), 0, 0};
    plan.victim = below(random, plan.world);
    plan.step = 1 + below(random, 1000);
    CAPTURE(i, plan.fault.word, plan.world, plan.victim);
    Job job(words_of(plan, random), plan.world);
    check_cause(job.run(), plan);
    CHECK(job.survivors() == 0);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  }
}

TEST_CASE("fault: a crash is the cause, even if a peer has reported the loss before") {
  for (const int signal : {SIGKILL, SIGSEGV}) {
    Job job({"hello", "publish_pid", "1:step=7", "0:lose_unexpectedly=1",
             "1:kill=" + std::to_string(signal)},
            2);
    const Outcome outcome = job.run();
    CHECK(outcome.exit_code == 7);
    REQUIRE(outcome.first_failure);
    CHECK(outcome.first_failure->rank == 1);
    CHECK(outcome.first_failure->step == 7);
  }
}

TEST_CASE("fault: a rank that lost a peer is the cause if no other appears in time") {
  Job job({"hello", "1:fail=7", "catch_term", "train"}, 2);
  const Outcome outcome = job.run();
  CHECK(outcome.exit_code == 7);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK(outcome.consequences.empty());
}

}  // namespace trainctl::launch
