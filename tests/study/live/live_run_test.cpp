#include "study/live/live_run.hpp"

#include "base/error.hpp"
#include "study/folder/folder_lock.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>

using namespace trainctl;
using namespace trainctl::study;
using report::TopState;

namespace {

void write_text(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

void write_run(const fs::path& run) {
  write_text(run / "config.resolved.yaml", "name: x\n");
  write_text(run / "manifest.json",
             R"({"course": {"steps_per_epoch": 100, "max_epochs": 4, "global_batch": 64}})");
  write_text(run / "metrics.jsonl",
             R"({"type":"step","epoch":1,"step":50,"elapsed_s":1.0,"lr":0.1,"train/loss":2.0})"
             "\n"
             R"({"type":"step","epoch":1,"step":100,"elapsed_s":2.0,"lr":0.1,"train/loss":"nan"})"
             "\n"
             R"({"type":"epoch","epoch":1,"step":100,"lr":0.1,"train/loss":1.5,"val/accuracy":0.5})"
             "\n"
             R"({"type":"step","epoch":2,"step":150,"elapsed_s":3.0,"lr":0.1,"train/loss":1.0})"
             "\n{\"type\":\"st");
  write_text(run / "epochs.csv",
             "epoch,step,wall_s,data_wait_s,samples_per_s\n1,100,2.0,0.5,3200\n");
  write_text(run / "logs/rank_0.log", "all is well\nwarning: slow disk\n");
}

}  // namespace

TEST_CASE("LiveRun: a run without a process or result is gone, and its files are shown") {
  TempFolder folder;
  write_run(folder.path());
  const report::TopView view = LiveRun(folder.path()).snapshot(0);
  CHECK(view.state == TopState::gone);
  CHECK(view.step == 150);
  CHECK(view.epoch == 1);
  CHECK(view.steps_per_s == 50.0);
  CHECK(view.samples_per_s == 3200.0);
  CHECK(view.data_wait_share == 0.25);
  CHECK(view.eta_s == 250.0 / 100 * 2);
  REQUIRE(view.losses.size() == 3);
  CHECK(view.losses.back() == 1.0);
  REQUIRE(view.metrics.size() == 2);
  CHECK(view.metrics[1].first == "val/accuracy");
  REQUIRE(view.warnings.size() == 1);
  CHECK(view.warnings[0] == "rank_0: warning: slow disk");
}

TEST_CASE("LiveRun: without metrics.jsonl the last row of epochs.csv is shown") {
  TempFolder folder;
  write_run(folder.path());
  fs::remove(folder / "metrics.jsonl");
  write_text(
      folder / "epochs.csv",
      "epoch,step,lr,train/loss,val/loss,wall_s\n1,100,0.1,2.0,,2.0\n2,200,0.05,1.5,1.75,2.0\n");
  const report::TopView view = LiveRun(folder.path()).snapshot(0);
  CHECK(view.epoch == 2);
  CHECK(view.step == 200);
  CHECK(view.lr == 0.05);
  REQUIRE(view.metrics.size() == 2);
  CHECK(view.metrics[1] == std::pair<std::string, double>("val/loss", 1.75));
  CHECK(view.eta_s == 200.0 / 100 * 2);
}

TEST_CASE("LiveRun: repeated steps of a resumed run replace the earlier ones") {
  TempFolder folder;
  write_run(folder.path());
  write_text(folder / "metrics.jsonl",
             R"({"type":"step","step":50,"elapsed_s":1.0,"train/loss":2.0})"
             "\n"
             R"({"type":"step","step":100,"elapsed_s":2.0,"train/loss":1.0})"
             "\n"
             R"({"type":"step","step":50,"elapsed_s":1.0,"train/loss":3.0})"
             "\n");
  CHECK(LiveRun(folder.path()).snapshot(0).losses == std::vector<double>{3.0});
}

TEST_CASE("LiveRun: a finished run has its result") {
  TempFolder folder;
  write_run(folder.path());
  write_text(folder / "result.json", R"({"verdict": "ok", "exit_code": 0, "message": ""})");
  const report::TopView view = LiveRun(folder.path()).snapshot(0);
  CHECK(view.state == TopState::ended);
  CHECK(view.verdict == "ok");
  CHECK(view.exit_code == 0);
}

TEST_CASE("LiveRun: a run on another host is reported with the host") {
  TempFolder folder;
  write_run(folder.path());
  write_text(folder / "result.json", R"({"verdict": "unfinished", "exit_code": null})");
  LockHolder holder = this_process();
  holder.host = "some-other-host";
  write_text(folder / ".lock", lock_line(holder));
  const report::TopView view = LiveRun(folder.path()).snapshot(0);
  CHECK(view.state == TopState::elsewhere);
  CHECK(view.host == "some-other-host");
}

TEST_CASE("LiveRun: damaged files count as missing") {
  TempFolder folder;
  for (const char* text : {"", "{", "[]", "null", "{\"verdict\": 3, \"type\": [], \"step\": 1e300}",
                           "\xff\xfe", "\"text\"\n,,,,\n"}) {
    CAPTURE(text);
    for (const char* name : {"manifest.json", "metrics.jsonl", "epochs.csv", "result.json", ".lock",
                             "logs/rank_0.log"})
      write_text(folder / name, text);
    const report::TopView view = LiveRun(folder.path()).snapshot(0);
    CHECK(view.state == TopState::gone);
    CHECK(view.step == 0);
  }
}
