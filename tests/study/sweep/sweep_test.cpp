#include "study/sweep/sweep.hpp"

#include "base/error.hpp"
#include "study/folder/folder_lock.hpp"
#include "support/catch.hpp"
#include "support/manual_clock.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <csignal>
#include <map>

using namespace trainctl;
using namespace trainctl::study;
using report::SweepStatus;

namespace {

/// The behavior of an invented run at its n-th start, from 0.
struct Course {
  std::map<int, int> exit_codes;  // the key is the start; other starts succeed
  bool endless = false;           // runs until it is asked to stop, then exits with 75
  std::string failure = "null";   // first_failure of result.json if it fails
};

/// Runs that end at once and leave a result.json, without a process.
class SweepWorld {
 public:
  explicit SweepWorld(std::vector<double> losses) : losses_(std::move(losses)), ledger_(make()) {}

  SweepEnd run() {
    return run_sweep(ledger_, plan,
                     {.start = [&](const SweepJob& job) { return start(job); },
                      .wait = [&](double seconds) { return wait(seconds); },
                      .on_update = {},
                      .clock = clock_});
  }
  [[nodiscard]] std::string statuses() const {
    std::string text;
    for (const LedgerRun& run : ledger_.runs()) text += std::string(enum_name(run.status)) + " ";
    return text;
  }
  Ledger& ledger() { return ledger_; }
  [[nodiscard]] double now() const { return clock_.now(); }
  void leave_result(std::int64_t number, std::int64_t epochs) const {
    const std::size_t setting = static_cast<std::size_t>(number - 1) / seeds.size();
    put_text(run_folder(plan.folder, number) / "result.json",
             fmt::format(R"({{"exit_code": 0, "epochs": {}, "wall_s": {}, "message": "",
                             "val": {{"loss": {}}}}})",
                         epochs, ++*stamp_, losses_[setting]));
  }
  void leave_failure(std::int64_t number, int exit_code, const std::string& failure) const {
    put_text(run_folder(plan.folder, number) / "result.json",
             fmt::format(R"({{"exit_code": {}, "wall_s": {}, "message": "", "first_failure": {}}})",
                         exit_code, ++*stamp_, failure));
  }

  SweepPlan plan;
  std::vector<std::uint64_t> seeds{0};
  std::map<std::int64_t, Course> courses;
  std::string order;                             // "1@3 2 ": run 1 until epoch 3, run 2 to its end
  std::vector<int> signals;                      // the runs received them
  std::map<int, std::vector<int>> stop_signals;  // the key is the number of the wait
  std::vector<int> concurrent;                   // number of runs after each start
  std::int64_t max_epochs = 9;

 private:
  class Job final : public JobProcess {
   public:
    Job(SweepWorld& world, SweepJob job, Course course, int start)
        : world_(world), job_(std::move(job)), course_(std::move(course)), start_(start) {
      world_.concurrent.push_back(++world_.running_);
    }
    ~Job() override { --world_.running_; }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    std::optional<int> poll_exit_code() override {
      if (course_.endless && !stopped_) return std::nullopt;
      if (stopped_) return 75;
      const auto code = course_.exit_codes.find(start_);
      if (code != course_.exit_codes.end()) {
        world_.leave_failure(job_.number, code->second, course_.failure);
        return code->second;
      }
      world_.leave_result(job_.number, job_.until_epoch.value_or(world_.max_epochs));
      return 0;
    }
    void signal(int number) override {
      world_.signals.push_back(number);
      stopped_ = true;
    }

   private:
    SweepWorld& world_;
    SweepJob job_;
    Course course_;
    int start_;
    bool stopped_ = false;
  };

  Ledger make() {
    plan.folder = folder_.path();
    plan.ranking = {"val/loss", report::Better::lower};
    plan.rungs = {9};
    return Ledger(folder_ / "sweep.sqlite");
  }
  std::unique_ptr<JobProcess> start(const SweepJob& job) {
    order += job.until_epoch ? fmt::format("{}@{} ", job.number, *job.until_epoch)
                             : fmt::format("{} ", job.number);
    return std::make_unique<Job>(*this, job, courses[job.number], starts_[job.number]++);
  }
  std::vector<int> wait(double seconds) {
    clock_.advance(seconds);
    REQUIRE(++waits_ < 1000);
    return stop_signals[waits_];
  }

  TempFolder folder_;
  ManualClock clock_;
  std::vector<double> losses_;
  std::unique_ptr<int> stamp_ = std::make_unique<int>(0);  // makes every result different
  Ledger ledger_;
  std::map<std::int64_t, int> starts_;
  int waits_ = 0;
  int running_ = 0;

 public:
  void define() {
    std::vector<PlannedRun> runs;
    for (std::size_t i = 0; i < losses_.size(); ++i) {
      for (const std::uint64_t seed : seeds)
        runs.push_back({fmt::format("{:016x}", i), seed, {{"optimizer.lr", std::to_string(i)}}});
    }
    ledger_.define({{"kind", "list"}}, runs);
  }
};

}  // namespace

TEST_CASE("run_sweep: each run starts once, in the order of the definition") {
  SweepWorld world({3, 1, 2});
  world.define();
  const SweepEnd end = world.run();
  CHECK_FALSE(end.signal);
  CHECK(world.order == "1 2 3 ");
  CHECK(world.statuses() == "ok ok ok ");
  CHECK(world.ledger().runs()[1].value == 1.0);
  CHECK(is_finished(world.ledger().runs()));
  world.run();
  CHECK(world.order == "1 2 3 ");
}

TEST_CASE("run_sweep: a failed run is recorded and the others continue") {
  SweepWorld world({3, 1});
  world.define();
  world.courses[1].exit_codes = {{0, 6}};
  CHECK_FALSE(world.run().failed_fast);
  CHECK(world.statuses() == "failed ok ");
  CHECK(world.ledger().runs()[0].exit_code == 6);
}

TEST_CASE("run_sweep: fail-fast stops the other runs, which can be resumed") {
  SweepWorld world({3, 1, 2});
  world.define();
  world.plan.on_failure = OnFailure::fail_fast;
  world.plan.jobs = 2;
  world.courses[1].exit_codes = {{0, 6}};
  world.courses[2].endless = true;
  const SweepEnd end = world.run();
  CHECK(end.failed_fast);
  CHECK_FALSE(end.signal);
  CHECK(world.statuses() == "failed pending pending ");
  CHECK(world.signals == std::vector<int>{SIGTERM});
}

TEST_CASE("run_sweep: a run that lacked resources is retried after a pause, up to the limit") {
  for (const int code : {11, 128 + SIGKILL}) {
    SweepWorld world({3, 1});
    world.define();
    world.courses[1].exit_codes = {{0, code}};
    world.run();
    CHECK(world.statuses() == "ok ok ");
    CHECK(world.order == "1 1 2 ");
    CHECK(world.now() >= kRetryPauseS);
  }
  SweepWorld world({3});
  world.define();
  world.courses[1].exit_codes = {{0, 11}, {1, 11}, {2, 11}};
  world.run();
  CHECK(world.statuses() == "failed ");
  CHECK(world.order == "1 1 ");
}

TEST_CASE("run_sweep: a run whose rank the OOM killer killed is retried") {
  const std::string killed = R"({"rank": 0, "signal": "SIGKILL", "message": "killed"})";
  const std::string reported = R"({"rank": 0, "signal": null, "message": "out of memory: 2 GB"})";
  for (const std::string& failure : {killed, reported}) {
    SweepWorld world({3, 1});
    world.define();
    world.courses[1] = {.exit_codes = {{0, 7}}, .failure = failure};
    world.run();
    CHECK(world.statuses() == "ok ok ");
    CHECK(world.order == "1 1 2 ");
  }
  SweepWorld world({3, 1});
  world.define();
  world.courses[1] = {.exit_codes = {{0, 7}},
                      .failure = R"({"rank": 0, "signal": "SIGSEGV", "message": "killed"})"};
  world.run();
  CHECK(world.statuses() == "failed ok ");
}

TEST_CASE(
    "run_sweep: a lack of resources lowers the number of concurrent runs until runs succeed") {
  SweepWorld world({6, 5, 4, 3, 2, 1});
  world.define();
  world.plan.jobs = 3;
  world.courses[1].exit_codes = world.courses[2].exit_codes = {{0, 11}};
  world.run();
  CHECK(world.order == "1 2 3 1 2 4 5 6 ");
  CHECK(world.concurrent == std::vector<int>{1, 2, 3, 1, 2, 1, 2, 3});
}

TEST_CASE("run_sweep: a stop signal reaches the runs, which can be resumed") {
  SweepWorld world({3, 1, 2});
  world.define();
  world.plan.jobs = 2;
  world.courses[1].endless = world.courses[2].endless = true;
  world.stop_signals[2] = {SIGINT};
  CHECK(world.run().signal == SIGINT);
  CHECK(world.signals == std::vector<int>{SIGTERM, SIGTERM});
  CHECK(world.statuses() == "pending pending pending ");
  world.courses.clear();
  world.run();
  CHECK(world.order == "1 2 1 2 3 ");
  CHECK(world.statuses() == "ok ok ok ");
}

TEST_CASE("run_sweep: a stop signal to one run stops the sweep") {
  SweepWorld world({3, 1});
  world.define();
  world.courses[1].exit_codes = {{0, 75}};
  CHECK(world.run().signal == SIGTERM);
  CHECK(world.statuses() == "pending pending ");
}

TEST_CASE("run_sweep: runs of a killed sweep are recorded or resumed") {
  SweepWorld world({3, 1, 2});
  world.define();
  world.ledger().set_target(std::vector<std::int64_t>{1, 2, 3}, 0);
  world.leave_result(2, 9);
  for (const std::int64_t number : {1, 2, 3}) {
    const fs::path run_dir = run_folder(world.plan.folder, number);
    world.ledger().claim(number, "gone", number == 2 ? result_hash(run_dir) : "");
  }
  world.leave_result(1, 9);  // run 1 had ended; run 2 has an older result; run 3 has none
  world.run();
  CHECK(world.order == "2 3 ");
  CHECK(world.statuses() == "ok ok ok ");
}

TEST_CASE("run_sweep: a run in use by another process is an error") {
  SweepWorld world({3});
  world.define();
  world.ledger().set_target(std::vector<std::int64_t>{1}, 0);
  world.ledger().claim(1, "gone", "");
  LockHolder holder = this_process();
  holder.host = "another-host";
  put_text(run_folder(world.plan.folder, 1) / FolderLock::kFileName, lock_line(holder));
  CHECK_THROWS_WITH(world.run(), Contains("is in use by pid") && Contains("another-host"));
  CHECK(world.statuses() == "running ");
}

TEST_CASE("run_sweep: halving stops worse settings early and promotes better ones") {
  SweepWorld world({5, 4, 6, 1, 2, 3, 9, 8, 7});
  world.define();
  world.plan.rungs = {1, 3, 9};
  world.run();
  CHECK(world.order == "1@1 2@1 3@1 2@3 4@1 4@3 5@1 6@1 5@3 4 7@1 8@1 9@1 6@3 ");
  CHECK(world.statuses() == "pruned pruned pruned ok pruned pruned pruned pruned pruned ");
  CHECK(world.ledger().runs()[5].epochs == 3);
}

TEST_CASE("run_sweep: the seeds of a setting are promoted together, by their mean") {
  SweepWorld world({5, 4});
  world.seeds = {0, 1};
  world.define();
  world.plan.rungs = {1, 9};
  world.plan.eta = 2;
  world.run();
  CHECK(world.order == "1@1 2@1 3@1 4@1 3 4 ");
  CHECK(world.statuses() == "pruned pruned ok ok ");
}

TEST_CASE("run_sweep: a run that stopped early before its rung counts as complete") {
  SweepWorld world({5, 4, 3});
  world.define();
  world.plan.rungs = {3, 9};
  world.courses[1].exit_codes = {};
  world.ledger().set_target(std::vector<std::int64_t>{1}, 0);
  world.ledger().claim(1, "gone", "");
  world.leave_result(1, 2);  // early stopping, after 2 of 3 epochs
  world.run();
  CHECK(world.statuses() == "ok pruned ok ");
}

TEST_CASE("run_sweep: a seed that is added later is run for its setting") {
  SweepWorld world({5});
  world.define();
  world.run();
  world.seeds = {0, 1};
  world.define();
  world.run();
  CHECK(world.order == "1 2 ");
  CHECK(world.statuses() == "ok ok ");
}
