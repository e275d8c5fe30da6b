#include "study/resume/run_history.hpp"

#include "base/error.hpp"
#include "checkpoint/saves.hpp"
#include "report/invented.hpp"
#include "report/record/run_files.hpp"
#include "report/sinks/sink.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;
using study::ResumePoint;

namespace {

std::string file_text(const fs::path& path) {
  return read_file(path, 1 << 20, ReadFailure::resource);
}

/// Writes the sinks' rows of epochs `first` to `last`, with two steps each.
void write_epochs(const fs::path& folder, std::int64_t first, std::int64_t last) {
  const auto csv = report::make_csv_sink(folder, {"train/loss", "val/loss"});
  const auto jsonl = report::make_jsonl_sink(folder);
  for (std::int64_t i = first; i <= last; ++i) {
    for (const std::int64_t step : {938 * i + 300, 938 * i + 600}) {
      const events::StepLogged logged{.epoch = i, .global_step = step, .loss = 0.5};
      jsonl->on_event(0, logged);
    }
    const events::Validated validated{
        .epoch = i, .global_step = 938 * i + 300, .metrics = {{"val/loss", 0.25}}};
    for (const auto& sink : {csv.get(), jsonl.get()}) sink->on_event(0, validated);
    const events::TableRow row{
        .metric = "val/confusion_matrix", .epoch = i, .row = 0, .counts = {3, 4}};
    csv->on_event(0, row);
    for (const auto& sink : {csv.get(), jsonl.get()}) sink->on_event(0, invented::epoch(i));
  }
}

const std::vector<std::string> kHistories{"epochs.csv", "timing.csv", "confusion_matrix.csv",
                                          "validations.csv", "metrics.jsonl"};

}  // namespace

TEST_CASE("run history: after a kill and a resume it equals that of an uninterrupted run") {
  for (const std::int64_t epoch : {0, 1, 2}) {
    TempFolder uninterrupted;
    TempFolder resumed;
    write_epochs(uninterrupted.path(), 0, 3);
    write_epochs(resumed.path(), 0, 2);
    study::supersede_history(resumed.path(), ResumePoint{epoch, 938 * epoch});
    write_epochs(resumed.path(), epoch, 3);
    for (const std::string& name : kHistories) {
      INFO(name << " from epoch " << epoch);
      CHECK(file_text(resumed / name) == file_text(uninterrupted / name));
    }
  }
}

TEST_CASE("run history: steps before a checkpoint within an epoch are kept") {
  TempFolder folder;
  write_epochs(folder.path(), 0, 1);
  study::supersede_history(folder.path(), ResumePoint{1, 938 + 300});
  const std::string kept = file_text(folder / "metrics.jsonl");
  CHECK_THAT(kept, Contains("\"step\":1238") && !Contains("\"step\":1538"));
  CHECK_THAT(kept, EndsWith("}\n") && !Contains("\"type\":\"epoch\",\"epoch\":2"));
  const std::string moved = file_text(folder / "superseded/1/metrics.jsonl");
  CHECK_THAT(moved, Contains("\"step\":1538") && Contains("\"type\":\"epoch\",\"epoch\":2"));
  CHECK(file_text(folder / "validations.csv") == "epoch,step,val/loss\n1,300,0.25\n2,1238,0.25\n");
  CHECK_FALSE(is_file(folder / "superseded/1/validations.csv"));
}

TEST_CASE("run history: each row is in the file or in superseded, with the header") {
  TempFolder folder;
  write_epochs(folder.path(), 0, 2);
  const std::string before = file_text(folder / "epochs.csv");
  const auto superseded = study::supersede_history(folder.path(), ResumePoint{1, 938});
  REQUIRE(superseded == folder / "superseded/1");
  const std::string kept = file_text(folder / "epochs.csv");
  const std::string moved = file_text(*superseded / "epochs.csv");
  const std::string header = before.substr(0, before.find('\n') + 1);
  CHECK(moved.starts_with(header));
  CHECK(kept + moved.substr(header.size()) == before);
  study::supersede_history(folder.path(), ResumePoint{0, 0});
  CHECK(file_text(folder / "epochs.csv") == header);
  CHECK(fs::exists(folder / "superseded/2/epochs.csv"));
}

TEST_CASE("run history: a truncated last line is moved, other files are unchanged") {
  TempFolder folder;
  put_text(folder / "epochs.csv", "epoch,step\n1,10\n2,2");
  put_text(folder / "metrics.jsonl", "{\"type\":\"step\",\"step\":5}\n{\"type\":\"st");
  put_text(folder / "mine.csv", "a,b\n7,8\n");
  put_text(folder / "logs/rank_0.log", "logged\n");
  study::supersede_history(folder.path(), ResumePoint{5, 100});
  CHECK(file_text(folder / "epochs.csv") == "epoch,step\n1,10\n");
  CHECK(file_text(folder / "superseded/1/epochs.csv") == "epoch,step\n2,2\n");
  CHECK(file_text(folder / "metrics.jsonl") == "{\"type\":\"step\",\"step\":5}\n");
  CHECK(file_text(folder / "mine.csv") == "a,b\n7,8\n");
  CHECK(file_text(folder / "logs/rank_0.log") == "logged\n");
}

TEST_CASE("run history: files that a start rewrites are copied") {
  TempFolder folder;
  CHECK_FALSE(study::supersede_history(folder.path(), ResumePoint{}));
  CHECK(fs::is_empty(folder.path()));
  put_text(folder / "result.json", "{\"verdict\": \"hang\"}");
  put_text(folder / "config.yaml", "name: x");
  REQUIRE(study::supersede_history(folder.path(), ResumePoint{3, 30}));
  CHECK(file_text(folder / "superseded/1/result.json") == "{\"verdict\": \"hang\"}");
  CHECK(file_text(folder / "config.yaml") == "name: x");
}

TEST_CASE("run history: checkpoints of later steps are moved") {
  TempFolder folder;
  checkpoint::Store store(folder / "checkpoints");
  for (const std::int64_t step : {10, 20, 30}) saves::save(store, step);
  study::supersede_history(folder.path(), ResumePoint{2, 20});
  CHECK(store.list().size() == 2);
  CHECK(saves::holds(folder / "superseded/1/checkpoints" / saves::name_of(30), 30));
  CHECK_NOTHROW(saves::save(store, 30));
}

TEST_CASE("run history: checkpoints of one step are ordered by epoch") {
  TempFolder folder;
  checkpoint::Store store(folder / "checkpoints");
  saves::save(store, 20);
  const fs::path ended = folder / "checkpoints" / checkpoint::folder_name({20, 3});
  fs::copy(folder / "checkpoints" / saves::name_of(20), ended, fs::copy_options::recursive);
  study::supersede_history(folder.path(), ResumePoint{2, 20});
  CHECK(fs::exists(folder / "checkpoints" / saves::name_of(20)));
  CHECK_FALSE(fs::exists(ended));
  CHECK(fs::exists(folder / "superseded/1/checkpoints" / ended.filename()));
}

TEST_CASE("run history: resuming from another run moves all checkpoints") {
  TempFolder folder;
  checkpoint::Store store(folder / "checkpoints");
  for (const std::int64_t step : {0, 10, 20}) saves::save(store, step);
  study::supersede_history(folder.path(),
                           ResumePoint{.epoch = 2, .global_step = 20, .of_this_run = false});
  CHECK(store.list().empty());
  for (const std::int64_t step : {0, 10, 20})
    CHECK(saves::holds(folder / "superseded/1/checkpoints" / saves::name_of(step), step));
}

TEST_CASE("run history: each resume uses a separate superseded folder") {
  TempFolder folder;
  checkpoint::Store store(folder / "checkpoints");
  for (const int number : {1, 2}) {
    for (const std::int64_t step : {10, 20})
      if (!fs::exists(folder / "checkpoints" / saves::name_of(step))) saves::save(store, step);
    study::supersede_history(folder.path(), ResumePoint{1, 10});
    study::commit_superseded(folder.path());
    const fs::path superseded = folder / "superseded" / std::to_string(number);
    CHECK(saves::holds(superseded / "checkpoints" / saves::name_of(20), 20));
  }
}

TEST_CASE("run history: epochs are read from their file with metrics and times") {
  TempFolder folder;
  CHECK(report::read_epochs(folder / "epochs.csv").empty());
  write_epochs(folder.path(), 0, 2);
  const auto epochs = report::read_epochs(folder / "epochs.csv");
  REQUIRE(epochs.size() == 3);
  const events::EpochEnded expected = invented::epoch(2);
  CHECK(epochs[2].epoch == 2);
  CHECK(epochs[2].global_step == expected.global_step);
  CHECK(epochs[2].lr == expected.lr);
  CHECK(epochs[2].metrics == expected.metrics);
  CHECK(epochs[2].timing.wall_s == expected.timing.wall_s);
  CHECK(epochs[2].timing.samples == expected.timing.samples);
  CHECK_FALSE(epochs[2].timing.gpu_util);
}

TEST_CASE("expect_same_data: names changed splits, except test") {
  TempFolder folder;
  put_text(folder / "manifest.json", R"({"data_fingerprints": {"train": "aa", "val": "bb"}})");
  const auto before = study::recorded_fingerprints(folder.path());
  CHECK(before == std::map<std::string, std::string>{{"train", "aa"}, {"val", "bb"}});
  CHECK_NOTHROW(study::expect_same_data(before, before));
  CHECK_NOTHROW(study::expect_same_data({{"test", "x"}}, {{"test", "y"}}));
  CHECK_NOTHROW(study::expect_same_data({}, before));
  CHECK_NOTHROW(
      study::expect_same_data({{"split", "x"}}, {{"split", "y"}}));  // it follows from train
  checkpoint::Manifest saved;
  saved.facts = {{"data.train", "aa"}, {"data.val", "bb"}, {"cpu", "x"}};
  CHECK(study::recorded_fingerprints(saved) == before);
  try {
    study::expect_same_data(before, {{"train", "aa"}, {"val", "cc"}});
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 10);
    CHECK_THAT(error.what(), Contains("dataset.val: bb -> cc") && !Contains("dataset.train"));
  }
  put_text(folder / "manifest.json", "{\"data_fin");
  CHECK(study::recorded_fingerprints(folder.path()).empty());
}
