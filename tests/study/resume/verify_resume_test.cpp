#include "study/resume/verify_resume.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

using namespace trainctl;
using namespace trainctl::study;
using report::Sameness;

namespace {

constexpr const char* kMetrics =
    R"({"type":"step","epoch":1,"step":1,"elapsed_s":0.5,"lr":0.1,"train/loss":2.25})"
    "\n"
    R"({"type":"step","epoch":1,"step":2,"elapsed_s":0.75,"lr":0.1,"train/loss":"nan"})"
    "\n"
    R"({"type":"epoch","epoch":1,"step":2,"elapsed_s":1,"lr":0.1,"val/loss":1.5})"
    "\n";

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), by);
}

std::string first(const std::string& found) {
  return first_difference(parse_metrics(kMetrics), parse_metrics(found)).value_or("");
}

BatchDigests digests(std::map<std::int64_t, std::string> epochs, std::string run) {
  return {std::move(epochs), std::move(run)};
}

/// Starts a process that waits for a signal.
pid_t waiting_process() {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::signal(SIGTERM, SIG_DFL);  // Catch2 would report a failed test
  ::alarm(60);
  ::pause();
  ::_exit(0);
}

int signal_that_ended(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("draw_kill_points: the steps are distinct and depend only on the seed") {
  const std::vector<std::int64_t> points = draw_kill_points(7, 20, {100, 1000});
  CHECK(std::set<std::int64_t>(points.begin(), points.end()).size() == 20);
  CHECK(*std::ranges::min_element(points) >= 100);
  CHECK(*std::ranges::max_element(points) <= 1000);
  CHECK(draw_kill_points(7, 20, {100, 1000}) == points);
  CHECK(draw_kill_points(8, 20, {100, 1000}) != points);
}

TEST_CASE("draw_kill_points: at most every step of the range is drawn") {
  std::vector<std::int64_t> points = draw_kill_points(1, 5, {3, 7});
  std::ranges::sort(points);
  CHECK(points == std::vector<std::int64_t>{3, 4, 5, 6, 7});
  CHECK_THROWS_WITH(draw_kill_points(1, 6, {3, 7}),
                    Contains("must be at most 5, the number of steps"));
  CHECK_THROWS_WITH(draw_kill_points(1, 1, {1, 0}),
                    Contains("must be at most 0, the number of steps"));
}

TEST_CASE("checkpoint_interval: about ten checkpoints, not only at the ends of epochs") {
  CHECK(checkpoint_interval(1876, 938) == 170);
  CHECK(checkpoint_interval(110, 10) == 9);
  CHECK(checkpoint_interval(110, 5) == 9);
  CHECK(checkpoint_interval(3, 1) == 1);
  CHECK(checkpoint_interval(1, 1) == 1);
}

TEST_CASE("verify-resume: killed runs use the threads and memory format of the first run") {
  CHECK(measured_overrides({.num_threads = 3, .channels_last = true}) ==
        std::vector<std::string>{"++trainer.num_threads=3", "++trainer.channels_last=true"});
  CHECK(measured_overrides({.num_threads = 1, .channels_last = false}) ==
        std::vector<std::string>{"++trainer.num_threads=1", "++trainer.channels_last=false"});
}

TEST_CASE("first_difference: times and repeated steps are ignored") {
  CHECK(first(kMetrics).empty());
  CHECK(first(replaced(kMetrics, "\"elapsed_s\":0.75", "\"elapsed_s\":9")).empty());
  CHECK(first(std::string(kMetrics) + kMetrics).empty());
}

TEST_CASE("first_difference: returns the first different value") {
  CHECK(first(replaced(kMetrics, "2.25", "2.2500000000000004")) ==
        "step 1: train/loss is 2.2500000000000004, expected 2.25");
  CHECK(first(replaced(kMetrics, "\"nan\"", "\"inf\"")) ==
        "step 2: train/loss is \"inf\", expected \"nan\"");
  CHECK(first(replaced(kMetrics, "\"val/loss\":1.5", "\"val/loss\":1")) ==
        "epoch ending at step 2: val/loss is 1, expected 1.5");
  CHECK(first(replaced(kMetrics, "\"step\":1,", "\"step\":3,")) ==
        "step 3 is not in the uninterrupted run");
  CHECK(first("").find("is missing") != std::string::npos);
  // A repeated step with other values is detected, although a later line has the expected values.
  const std::string twice = replaced(kMetrics, "2.25", "2.5") + kMetrics;
  CHECK_THAT(first(twice), StartsWith("step 1: train/loss"));
}

TEST_CASE("parse_metrics: an error has the number of the invalid line") {
  for (const char* text : {"{}", "[]", "{", "{\"type\":1,\"step\":1}", "{\"type\":\"step\"}"})
    CHECK_THROWS_WITH(parse_metrics("\n" + std::string(text)), StartsWith("line 2 "));
}

TEST_CASE("compare: only digests that both runs report are compared") {
  const BatchDigests expected = digests({{0, "a"}, {1, "b"}}, "c");
  CHECK(compare(expected, expected).sameness == Sameness::identical);
  CHECK(compare(expected, digests({{0, "a"}}, "")).sameness == Sameness::identical);
  CHECK(compare(expected, digests({}, "c")).sameness == Sameness::identical);
  CHECK(compare(expected, digests({}, "")).sameness == Sameness::unknown);
  CHECK(compare(expected, digests({{1, "x"}}, "c")).first == "epoch 2: hash x, expected b");
  CHECK(compare(expected, digests({{0, "a"}}, "x")).sameness == Sameness::different);
}

TEST_CASE("batch_digests: collects the digests before and after a resume") {
  report::RunRecord before;
  before.epochs = {{.epoch = 0, .data_digest = "a"}};
  report::RunRecord after;
  after.epochs = {{.epoch = 1, .data_digest = "b"}, {.epoch = 2, .data_digest = ""}};
  after.finished[0].data_digest = "c";
  const BatchDigests found = batch_digests({&before, &after});
  CHECK(found.epochs == std::map<std::int64_t, std::string>{{0, "a"}, {1, "b"}});
  CHECK(found.run == "c");
}

TEST_CASE("compare_section: unknown without a last checkpoint") {
  const TempFolder folder;
  CHECK(compare_section(folder / "a", folder / "b", {{"model"}, {}}).sameness == Sameness::unknown);
}

TEST_CASE("ProcessKiller: only the selected processes are killed when the step is reached") {
  for (const bool all : {false, true}) {
    const pid_t first_rank = waiting_process();
    const pid_t second_rank = waiting_process();
    ProcessKiller killer(10, all ? std::nullopt : std::optional(1));
    killer.on_event(0, events::Hello{.rank = 0, .pid = first_rank});
    killer.on_event(1, events::Hello{.rank = 1, .pid = second_rank});
    killer.on_event(0, events::StepLogged{.global_step = 9});
    CHECK(::waitpid(second_rank, nullptr, WNOHANG) == 0);
    killer.on_event(0, events::Progress{.global_step = 10});
    CHECK(signal_that_ended(second_rank) == SIGKILL);
    if (!all) ::kill(first_rank, SIGTERM);
    CHECK(signal_that_ended(first_rank) == (all ? SIGKILL : SIGTERM));
  }
}
