#include "launch/process/stacks.hpp"

#include "launch/job.hpp"
#include "support/catch.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace trainctl::launch {
namespace {

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer delays signals until a thread calls a function that it intercepts.
constexpr bool kAnswersAtOnce = false;
#else
constexpr bool kAnswersAtOnce = true;
#endif

struct Section {
  std::string thread_header;
  std::vector<std::string> lines;

  [[nodiscard]] bool holds(const std::string& part) const {
    return thread_header.find(part) != std::string::npos ||
           std::ranges::any_of(
               lines, [&](const auto& line) { return line.find(part) != std::string::npos; });
  }
  [[nodiscard]] bool has_frames() const { return holds("[0x"); }
};

/// Returns the threads in a file of stacks by name; for several with one name the last.
std::map<std::string, Section> sections(const std::filesystem::path& path) {
  std::map<std::string, Section> found;
  Section* current = nullptr;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("thread ")) {
      const std::size_t first = line.find('"') + 1;
      current = &found[line.substr(first, line.find('"', first) - first)];
      *current = {line, {}};
    } else if (current != nullptr && !line.empty()) {
      current->lines.push_back(line);
    }
  }
  return found;
}

constexpr double kPerEvent = 0.02;  // seconds by which the clock advances with a step of rank 0

/// A job whose rank 1 executes `words` and then hangs in a step, while rank 0 continues.
class HangingJob : public Job {
 public:
  explicit HangingJob(const std::vector<std::string>& words) : Job(all_words(words), 2) {
    spec.hang_timeout_s = 5;
    spec.grace_s = 0.5;
    spec.init_timeout_s = 60'000;
  }

  Outcome run_until_hang() {
    const auto hangs = [this] { return count<events::Progress>() > 0 || is_stopped(1); };
    return run({}, HangClock(*this, hangs, kPerEvent));
  }

  [[nodiscard]] std::map<std::string, Section> stacks(int rank) const {
    return sections(stacks_path(spec.log_folder, rank));
  }

 private:
  static std::vector<std::string> all_words(const std::vector<std::string>& words) {
    std::vector<std::string> all{"catch_term", "hello", "report"};
    for (const std::string& word : words) all.push_back("1:" + word);
    for (const char* word : {"1:step=41", "1:announce", "1:wait", "train"}) all.emplace_back(word);
    return all;
  }
};

void check_hang_of_rank_1(const Outcome& outcome) {
  CHECK(outcome.exit_code == 8);
  CHECK(outcome.verdict == "hang");
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->rank == 1);
  CHECK_THAT(outcome.message, Contains("stacks of its threads: logs/rank_1.stacks.txt"));
}

}  // namespace

TEST_CASE("stacks: a hang writes the stacks of all threads of all ranks") {
  HangingJob job({"block", "spin"});
  check_hang_of_rank_1(job.run_until_hang());
  auto hanging = job.stacks(1);
  for (const char* name : {"fake_worker", "blocked", "spinning"}) {
    CAPTURE(name);
    REQUIRE(hanging.contains(name));
    CHECK((hanging[name].has_frames() || !kAnswersAtOnce));
  }
  CHECK(hanging["blocked"].holds("S (sleeping)"));
  CHECK(hanging["spinning"].holds("R (running)"));
  auto healthy = job.stacks(0);
  CHECK((healthy["fake_worker"].has_frames() || !kAnswersAtOnce));
  CHECK(job.survivors() == 0);
}

TEST_CASE("stacks: a stopped process is reported as stopped, and its stacks are written") {
  HangingJob job({"step=40", "stop"});
  check_hang_of_rank_1(job.run_until_hang());
  auto stacks = job.stacks(1);
  REQUIRE(stacks.contains("fake_worker"));
  CHECK(stacks["fake_worker"].holds("T (stopped)"));
  CHECK((stacks["fake_worker"].has_frames() || !kAnswersAtOnce));
  CHECK(job.survivors() == 0);
}

TEST_CASE("hang: a stopped process has the step limit in every phase") {
  HangingJob job({"save=40", "stop"});
  const Outcome outcome = job.run_until_hang();
  check_hang_of_rank_1(outcome);
  CHECK_THAT(outcome.message, Contains("it has been suspended (SIGSTOP)") &&
                                  Contains("while saving") && Contains("5.00 s"));
}

TEST_CASE("hang: a stopped process is the cause, not one that has waited longer") {
  Job job({"hello", "0:begin_collective=sum of the losses", "0:step=40", "barrier",
           "1:sleep_ms=100", "1:begin_collective=sum of the losses", "1:step=41", "1:stop", "wait"},
          2);
  job.spec.hang_timeout_s = 5;
  job.spec.grace_s = 0.5;
  check_hang_of_rank_1(job.run({}, HangClock(job, [&] { return job.is_stopped(1); })));
}

TEST_CASE("stacks: a thread that cannot answer has a line too") {
  HangingJob job({"deaf"});
  check_hang_of_rank_1(job.run_until_hang());
  auto stacks = job.stacks(1);
  REQUIRE(stacks.contains("deaf"));
  CHECK(stacks["deaf"].holds("it blocks the signal"));
  CHECK(stacks["deaf"].holds("(sleeping)"));
  CHECK((stacks["fake_worker"].has_frames() || !kAnswersAtOnce));
}

TEST_CASE("stacks: threads that do not answer take a limited time and have a line each") {
  HangingJob job({"idlers=30", "mute"});
  check_hang_of_rank_1(job.run_until_hang());
  const std::string text = contents(stacks_path(job.spec.log_folder, 1));
  CHECK_THAT(text, Contains("it did not answer in time") &&
                       Contains("no stack: the time limit was reached"));
  std::size_t threads = 0;
  for (std::size_t at = 0; (at = text.find("\nthread ", at)) != std::string::npos; ++at) ++threads;
  CHECK(threads >= 31);
  CHECK(job.survivors() == 0);
}

TEST_CASE("stacks: a process without a handler is listed and not killed") {
  Job job({});
  job.spec.argv = {"/bin/sleep", "600"};
  job.spec.init_timeout_s = 0.3;
  const Outcome outcome = job.run();
  CHECK(outcome.exit_code == 8);
  REQUIRE(outcome.first_failure);
  CHECK(outcome.first_failure->signal == SIGTERM);
  CHECK_THAT(outcome.message, Contains("did not report within") &&
                                  Contains("stacks of its threads: logs/rank_0.stacks.txt"));
  auto stacks = sections(stacks_path(job.spec.log_folder, 0));
  REQUIRE(stacks.contains("sleep"));
  CHECK(stacks["sleep"].holds("its process does not handle the signal"));
}

TEST_CASE("stacks: files of an earlier run in the same folder are removed") {
  Job job({"hello", "finish"});
  std::filesystem::create_directories(job.spec.log_folder);
  std::ofstream(stacks_path(job.spec.log_folder, 0)) << "old";
  CHECK(job.run().exit_code == 0);
  CHECK_FALSE(std::filesystem::exists(stacks_path(job.spec.log_folder, 0)));
}

TEST_CASE("list_threads: lists threads up to a limit, the first thread first") {
  const ThreadList threads = list_threads(::getpid(), 1);
  REQUIRE(threads.states.size() == 1);
  CHECK(threads.states.front().tid == ::getpid());
  CHECK_FALSE(threads.states.front().name.empty());
  CHECK(threads.states.front().state.starts_with("R"));
  constexpr pid_t kNobody = 0x7fffffff;
  CHECK(list_threads(kNobody, 10).states.empty());
}

}  // namespace trainctl::launch
