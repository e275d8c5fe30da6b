#include "support/growth.hpp"

#include "study/bench/baseline.hpp"
#include "study/folder/run_folder.hpp"
#include "study/live/live_run.hpp"
#include "study/resume/run_history.hpp"
#include "study/resume/verify_resume.hpp"
#include "study/sweep/ledger.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <memory>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

/// Writes the histories of a run with one step and one validation per epoch.
void write_histories(const fs::path& run, std::size_t epochs) {
  std::string metrics;
  std::string rows = "epoch,step,lr,train/loss,wall_s,data_wait_s\n";
  std::string timing = "epoch,wall_s,first_batch_s\n";
  std::string log;
  for (std::size_t i = 1; i <= epochs; ++i) {
    metrics += fmt::format(
        R"({{"type":"step","epoch":{0},"step":{0},"elapsed_s":{0}.5,"train/loss":2.25}})"
        "\n"
        R"({{"type":"epoch","epoch":{0},"step":{0},"lr":0.1,"train/loss":2.25}})"
        "\n",
        i);
    rows += fmt::format("{0},{0},0.1,2.25,1.5,0.5\n", i);
    timing += fmt::format("{},1.5,0.5\n", i);
    log += "warning: slow disk\n";
  }
  put_text(run / "metrics.jsonl", metrics);
  put_text(run / "epochs.csv", rows);
  put_text(run / "validations.csv", rows);
  put_text(run / "timing.csv", timing);
  put_text(run / "logs/rank_0.log", log);
}

/// Returns the folder of a run with histories of this length, which is written once.
fs::path run_of(const TempFolder& folder, std::size_t epochs) {
  const fs::path run = folder / std::to_string(epochs);
  if (!fs::exists(run)) write_histories(run, epochs);
  return run;
}

}  // namespace

TEST_CASE("growth: truncating the histories of a resumed run is linear in their lines") {
  const TempFolder folder;
  const auto resuming = [&](std::size_t epochs) {
    fs::remove_all(folder / "run");
    write_histories(folder / "run", epochs);
    const auto half = static_cast<std::int64_t>(epochs / 2);
    return [run = folder / "run", half] {
      (void)study::damaged_history(run);
      REQUIRE(study::supersede_history(run, {.epoch = half, .global_step = half}));
      CHECK(study::restore_superseded(run));
    };
  };
  CHECK(growth_per_doubling(resuming, 1'000) <= kMostPerDoubling);
}

TEST_CASE("growth: undoing a resume is linear in the checkpoints that it has moved") {
  const TempFolder folder;
  const auto undoing = [&](std::size_t checkpoints) {
    fs::remove_all(folder / "run");
    write_histories(folder / "run", 1);
    const auto make_checkpoints = [&] {
      for (std::size_t i = 1; i <= checkpoints; ++i)
        fs::create_directories(
            folder / "run/checkpoints" /
            checkpoint::folder_name({.global_step = static_cast<std::int64_t>(i), .epoch = 1}));
    };
    make_checkpoints();
    REQUIRE(study::supersede_history(folder / "run", {.of_this_run = true}));
    make_checkpoints();  // as a resumed run does that is killed before it has saved them
    return [run = folder / "run"] { CHECK(study::restore_superseded(run)); };
  };
  CHECK(growth_per_doubling(undoing, 60) <= kMostPerDoubling);
}

TEST_CASE("growth: finding the newest run is linear in the runs of each experiment") {
  const TempFolder folder;
  const auto finding = [&](std::size_t runs) {
    const fs::path root = folder / std::to_string(runs);
    for (std::size_t i = fs::exists(root) ? runs : 0; i < runs; ++i) {
      for (const char* experiment : {"a", "b"})
        put_text(root / experiment / std::to_string(10'000 + i) / "config.resolved.yaml", "");
    }
    return [root] { (void)study::find_run("latest", root); };
  };
  CHECK(growth_per_doubling(finding, 60) <= kMostPerDoubling);
}

TEST_CASE("growth: observing a run is linear in the lines that are read") {
  const TempFolder folder;
  const auto observing = [&](std::size_t epochs) {
    return [run = run_of(folder, epochs), epochs] {
      const report::TopView view = study::LiveRun(run).snapshot(0);
      CHECK(view.step == static_cast<std::int64_t>(epochs));
    };
  };
  // LiveRun reads the last 256 KiB of a file: the longest history is shorter.
  CHECK(growth_per_doubling(observing, 50) <= kMostPerDoubling);
}

TEST_CASE("growth: reading a run as a baseline is linear in its epochs") {
  const TempFolder folder;
  const auto reading = [&](std::size_t epochs) {
    const fs::path run = run_of(folder, epochs);
    put_text(run / "result.json", R"({"exit_code": 0, "wall_s": 2})");
    put_text(run / "manifest.json", "{}");
    put_text(run / "config.resolved.yaml", "name: x\n");
    return [run] { CHECK(study::load_baseline(run).rows.size() == 1); };
  };
  CHECK(growth_per_doubling(reading, 2'000) <= kMostPerDoubling);
}

TEST_CASE("growth: comparing the metrics of a resumed run is linear in their lines") {
  const TempFolder folder;
  const auto comparing = [&](std::size_t epochs) {
    return [run = run_of(folder, epochs)] {
      const std::vector<study::MetricsLine> lines = study::read_metrics(run);
      CHECK_FALSE(study::first_difference(lines, lines));
    };
  };
  CHECK(growth_per_doubling(comparing, 1'000) <= kMostPerDoubling);
}

TEST_CASE("growth: reading and redefining a ledger is linear in its runs") {
  const TempFolder folder;
  const auto reading = [&](std::size_t count) {
    std::vector<study::PlannedRun> plan;
    for (std::size_t i = 0; i < count; ++i)
      plan.push_back({fmt::format("{:016x}", i), 7, {{"optimizer.lr", std::to_string(i)}}});
    const auto ledger = std::make_shared<study::Ledger>(folder / std::to_string(count));
    ledger->define(Json::object(), plan);
    return [ledger, plan] {
      REQUIRE(ledger->runs().size() == plan.size());
      REQUIRE(ledger->all_runs().size() == plan.size());
      REQUIRE(ledger->define(Json::object(), plan) == 0);
    };
  };
  CHECK(growth_per_doubling(reading, 30) <= kMostPerDoubling);
}
