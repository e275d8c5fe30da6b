#include "checkpoint/folder.hpp"
#include "report/invented.hpp"
#include "report/sinks/sink.hpp"
#include "study/resume/config_changes.hpp"
#include "study/run/run_start.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;
using study::HistoryRange;
using study::ResumePoint;

namespace {

constexpr std::int64_t kSteps = 938;  // an invented epoch has this many

/// Writes the sinks' rows of `epochs` epochs with a line every 100 steps, then up to `step`.
void write_tables(const fs::path& folder, std::int64_t epochs, std::int64_t step) {
  const auto csv = report::make_csv_sink(folder, {"train/loss"});
  const auto jsonl = report::make_jsonl_sink(folder);
  for (std::int64_t at = 1; at <= step; ++at) {
    if (at % 100 == 0) jsonl->on_event(0, events::StepLogged{.global_step = at, .loss = 0.5});
    if (at % kSteps != 0 || at / kSteps > epochs) continue;
    for (const auto& sink : {csv.get(), jsonl.get()})
      sink->on_event(0, invented::epoch(at / kSteps - 1));
  }
}

std::string missing(const TempFolder& folder, const ResumePoint& to, checkpoint::Moment from = {}) {
  return study::missing_history(folder.path(), {from, to, 100});
}

}  // namespace

TEST_CASE("missing_history: tables that reach the checkpoint are complete") {
  TempFolder folder;
  CHECK(missing(folder, {3, 3000}).empty());  // the files do not exist
  write_tables(folder.path(), 2, 2099);
  for (const std::int64_t step : {1876, 2000, 2099}) CHECK(missing(folder, {2, step}).empty());
}

TEST_CASE("missing_history: lists each incomplete table once, with its last entry") {
  TempFolder folder;
  write_tables(folder.path(), 1, 1150);
  CHECK_THAT(missing(folder, {2, 1900}),
             StartsWith("epochs.csv ends with epoch 1, metrics.jsonl ends with step 1,100") &&
                 Contains("the checkpoint is at step 1,900 (epoch 3)"));
  CHECK_THAT(missing(folder, {1, 1200}), StartsWith("metrics.jsonl ends with step 1,100, and"));
  CHECK(missing(folder, {1, 1199}).empty());
  CHECK(study::missing_history(folder.path(), {{}, {1, 9000}, 0}).empty());
}

TEST_CASE("missing_history: tables without an entry") {
  TempFolder folder;
  put_text(folder / "epochs.csv", "epoch,step\n");
  put_text(folder / "metrics.jsonl", "not ours\n");
  CHECK_THAT(missing(folder, {1, 938}),
             StartsWith("epochs.csv has no epoch, metrics.jsonl has no step, and"));
  CHECK(missing(folder, {0, 99}).empty());
}

TEST_CASE("missing_history: gaps of an earlier start or another folder are not reported again") {
  TempFolder folder;
  put_text(folder / "epochs.csv", "epoch,step\n");
  put_text(folder / "metrics.jsonl", "");
  CHECK(missing(folder, {3, 3050}, {3001, 3}).empty());
  CHECK_THAT(missing(folder, {3, 3150}, {3001, 3}), StartsWith("metrics.jsonl has no step, and"));
  CHECK_THAT(missing(folder, {4, 3050}, {3001, 3}), StartsWith("epochs.csv has no epoch, and"));
}

TEST_CASE("last_origin: reads the start of the last run from its result") {
  TempFolder folder;
  const auto with = [&](const std::string& text) {
    put_text(folder / "result.json", text);
    return study::last_origin(folder.path());
  };
  CHECK_FALSE(study::last_origin(folder.path()));
  CHECK(with(R"({"resumed_from": null})") == checkpoint::Moment{});
  for (const std::string place : {"checkpoints/", "/other/run/checkpoints/"})
    CHECK(with(R"({"resumed_from": {"path": ")" + place + R"(epoch=0003-step=000938"}})") ==
          checkpoint::Moment{938, 3});
  CHECK_FALSE(with(R"({"resumed_from": {"path": "elsewhere"}})"));
  CHECK_FALSE(with(R"({"verdict": "ok"})"));
  CHECK_FALSE(with("{\"verd"));
}

TEST_CASE("resolved config: a number is found by its path") {
  const std::string text = "loader: { batch_size: 64, num_workers: auto, shuffle: 0 }\n";
  CHECK(study::resolved_number(text, "loader.batch_size") == 64);
  CHECK_FALSE(study::resolved_number(text, "loader.num_workers"));
  CHECK_FALSE(study::resolved_number(text, "loader.shuffle"));
  CHECK_FALSE(study::resolved_number(text, "loader.prefetch_factor"));
  CHECK_FALSE(study::resolved_number("a: [", "a"));
}
