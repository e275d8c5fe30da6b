#include "base/error.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/saves.hpp"
#include "study/bench/trials.hpp"
#include "study/fake_run.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>

using namespace trainctl;
using fake_run::resume_request;

namespace {

std::string text_of(const fs::path& path) {
  return read_file(path, 1 << 20, ReadFailure::resource);
}

int lines_in(const fs::path& path) {
  const std::string text = text_of(path);
  return static_cast<int>(std::ranges::count(text, '\n'));
}

/// Creates a checkpoint that a script copies: $CHECKPOINTS/<name>.
std::string copy_checkpoint(const TempFolder& folder, std::int64_t step) {
  checkpoint::Store store(folder / "made");
  if (!fs::exists(folder / "made" / saves::name_of(step))) saves::save(store, step);
  return "cp -r '" + (folder / "made" / saves::name_of(step)).string() + "' \"$3/checkpoints/\"\n";
}

/// Counts the starts in starts.txt of the test's folder and sets $N.
std::string with_start_count(const TempFolder& folder, const std::string& script) {
  const std::string file = "'" + (folder / "starts.txt").string() + "'";
  return "echo start >> " + file + "\nN=$(wc -l < " + file + ")\n" + script;
}

study::RunRequest with(study::RunRequest request, const std::vector<std::string>& overrides) {
  config::Diagnostics diagnostics;
  request.loaded = spec::load_experiment(request.config_file, overrides, diagnostics);
  request.overrides = overrides;
  return request;
}

study::RunOutcome run(const study::RunRequest& request) {
  const auto make_sinks = [](const fs::path& run_dir) {
    study::Sinks sinks;
    sinks.push_back(report::make_csv_sink(run_dir, {}));
    sinks.push_back(report::make_jsonl_sink(run_dir));
    return sinks;
  };
  return study::run_experiment(request, make_sinks, steady_clock());
}

std::string hello() {
  return fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
         fake_run::emit(events::RunStarted{
             .max_epochs = 3, .monitor = "train/loss", .data_fingerprints = {{"train", "aa"}}});
}

/// Trains one more epoch at each start until three are complete.
std::string one_epoch_per_start() {
  std::string script =
      hello() + "if [ $N -gt 1 ]; then " + fake_run::emit(events::Resumed{}) + "fi\n";
  for (int i = 0; i < 3; ++i) {
    script += "if [ $N = " + std::to_string(i + 1) + " ]; then\n" +
              fake_run::emit(invented::epoch(i)) + "fi\n";
  }
  return script;
}

const std::string kKillSelf = "kill -9 $$\n";

std::string finished() {
  return fake_run::emit(
      events::Finished{.epochs = 3, .global_step = 2814, .stop_reason = "max_epochs"});
}

/// Returns the warnings except those about the global batch: the checkpoints are of two ranks, and
/// the runs have one.
std::vector<std::string> warnings_of(const study::RunOutcome& outcome) {
  std::vector<std::string> warnings = outcome.record.warnings;
  std::erase_if(warnings,
                [](const auto& each) { return each.starts_with("the global batch is "); });
  return warnings;
}

}  // namespace

TEST_CASE("resume: a failed run resumes from its checkpoint in its folder, and its tables grow") {
  TempFolder folder;
  const std::string save = "if [ $N = 1 ]; then " + copy_checkpoint(folder, 10) + "fi\n";
  const auto request = fake_run::request(
      folder, with_start_count(folder, "cp \"$3/task.json\" \"$3/task.$N\" 2>&1\n" +
                                           one_epoch_per_start() + save + "if [ $N = 1 ]; then " +
                                           kKillSelf + "fi\n" + finished()));
  const auto failed = run(request);
  CHECK(failed.ending.exit_code == 7);
  CHECK(failed.result["resumed_from"].is_null());
  CHECK(failed.result["checkpoint"]["path"] == "checkpoints/" + saves::name_of(10));
  CHECK(failed.result["checkpoint"]["verified"] == true);
  CHECK_THAT(failed.ending.resume_command,
             StartsWith("trainctl run ") && EndsWith(failed.folder.string() + " --resume auto"));
  CHECK_FALSE(fs::exists(failed.folder / "task.1"));

  const auto resumed = run(resume_request(request, failed.folder));
  CHECK(resumed.folder == failed.folder);
  CHECK(resumed.ending.exit_code == 0);
  const std::string job = text_of(resumed.folder / "task.2");
  CHECK(spec::parse_job(job).resume ==
        fs::canonical(resumed.folder) / "checkpoints" / saves::name_of(10));
  const Json& result = resumed.result;
  CHECK(result["resumed_from"]["step"] == 10);
  CHECK(result["resumed_from"]["path"] == "checkpoints/" + saves::name_of(10));
  CHECK(result["epochs"] == 2);
  CHECK(result["restarts"] == 0);
  CHECK(result["resume_command"].is_null());
  CHECK(lines_in(resumed.folder / "epochs.csv") == 3);
  CHECK(lines_in(resumed.folder / "metrics.jsonl") == 2);
  CHECK(Json::parse(text_of(resumed.folder / "superseded/1/result.json"))["exit_code"] == 7);
  CHECK_FALSE(fs::exists(resumed.folder / ".lock"));
}

TEST_CASE("resume: rows after the checkpoint are not duplicated") {
  TempFolder folder;
  // The checkpoint of step 10 is the start of epoch 2, so only one of three rows is complete.
  const auto request = fake_run::request(
      folder,
      with_start_count(folder,
                       hello() + "if [ $N = 1 ]; then\n" + fake_run::emit(invented::epoch(0)) +
                           fake_run::emit(invented::epoch(1)) + fake_run::emit(invented::epoch(2)) +
                           copy_checkpoint(folder, 10) + kKillSelf + "fi\n" +
                           fake_run::emit(events::Resumed{.epoch = 1, .global_step = 10}) +
                           fake_run::emit(invented::epoch(1)) + fake_run::emit(invented::epoch(2)) +
                           finished()));
  const auto failed = run(request);
  const std::string before = text_of(failed.folder / "epochs.csv");
  const auto resumed = run(resume_request(request, failed.folder));
  CHECK(text_of(resumed.folder / "epochs.csv") == before);
  CHECK(lines_in(resumed.folder / "superseded/1/epochs.csv") == 3);
  CHECK(resumed.result["epochs"] == 3);
}

TEST_CASE("resume: an older checkpoint that the worker rejects does not remove newer ones") {
  TempFolder folder;
  const std::string first = fake_run::emit(invented::epoch(0)) +
                            fake_run::emit(invented::epoch(1)) +
                            fake_run::emit(invented::epoch(2)) + copy_checkpoint(folder, 10) +
                            copy_checkpoint(folder, 20) + copy_checkpoint(folder, 30) + kKillSelf;
  const std::string refuses =
      fake_run::emit(events::Failed{.kind = 10, .message = "it does not fit"}) + "exit 10\n";
  const auto request =
      fake_run::request(folder, with_start_count(folder, hello() + "if [ $N = 1 ]; then\n" + first +
                                                             "fi\nif [ $N = 2 ]; then\n" + refuses +
                                                             "fi\n" + finished()));
  const auto failed = run(request);
  const fs::path checkpoints = failed.folder / "checkpoints";
  const std::string rows = text_of(failed.folder / "epochs.csv");
  const std::string lines = text_of(failed.folder / "metrics.jsonl");
  auto older = resume_request(request, failed.folder);
  older.resume = study::parse_resume((checkpoints / saves::name_of(10)).string());
  const auto refused = run(older);
  CHECK(refused.ending.exit_code == 10);
  CHECK(refused.result["resumed_from"]["step"] == 10);
  CHECK(refused.result["checkpoint"]["step"] == 30);
  for (const int step : {10, 20, 30}) CHECK(saves::holds(checkpoints / saves::name_of(step), step));
  CHECK(text_of(failed.folder / "epochs.csv") == rows);
  CHECK(text_of(failed.folder / "metrics.jsonl") == lines);
  const auto resumed = run(resume_request(request, failed.folder));
  CHECK(resumed.ending.exit_code == 0);
  CHECK(resumed.result["resumed_from"]["step"] == 30);
}

TEST_CASE("resume: a start that exits before it makes progress restarts from the same checkpoint") {
  TempFolder folder;
  const std::string first = copy_checkpoint(folder, 10) + copy_checkpoint(folder, 20) + kKillSelf;
  const auto request = fake_run::request(
      folder, with_start_count(folder, hello() + "if [ $N = 1 ]; then\n" + first +
                                           "fi\nif [ $N = 2 ]; then " + kKillSelf + "fi\n" +
                                           fake_run::emit(events::Resumed{.global_step = 10}) +
                                           finished()));
  const auto failed = run(request);
  auto older = resume_request(with(request, {"trainer.max_restarts=1"}), failed.folder);
  older.resume = study::parse_resume((failed.folder / "checkpoints" / saves::name_of(10)).string());
  const auto outcome = run(older);
  CHECK(outcome.ending.exit_code == 0);
  CHECK(outcome.result["restarts"] == 1);
  CHECK(outcome.result["resumed_from"]["step"] == 10);
  CHECK_FALSE(fs::exists(failed.folder / "checkpoints" / saves::name_of(20)));
}

TEST_CASE("resume: auto without a checkpoint starts from the beginning in the same folder") {
  TempFolder folder;
  const auto request = fake_run::request(
      folder,
      with_start_count(folder, hello() + fake_run::emit(invented::epoch(0)) +
                                   "if [ $N = 1 ]; then " + kKillSelf + "fi\n" + finished()));
  const auto failed = run(request);
  CHECK(failed.result["checkpoint"].is_null());
  CHECK(failed.result["resume_command"].is_null());
  const auto resumed = run(resume_request(request, failed.folder));
  CHECK(resumed.ending.exit_code == 0);
  CHECK(lines_in(resumed.folder / "epochs.csv") == 2);
  CHECK_FALSE(fs::exists(resumed.folder / spec::kJobFile));
}

TEST_CASE("resume: a finished run does not restart, and the message names the limit to raise") {
  TempFolder folder;
  const std::string script = with_start_count(
      folder, hello() + "if [ $N -gt 1 ]; then " + fake_run::emit(events::Resumed{}) + "fi\n" +
                  fake_run::emit(invented::epoch(0)) + copy_checkpoint(folder, 10) + finished());
  const auto request = fake_run::request(folder, script);
  const auto first = run(with(request, {"trainer.max_epochs=1"}));
  REQUIRE(first.ending.exit_code == 0);
  const std::string result = text_of(first.folder / "result.json");
  const auto raise = [&](const std::vector<std::string>& overrides) {
    const auto again = run(resume_request(with(request, overrides), first.folder));
    CHECK(again.ending.exit_code == 0);
    CHECK(again.result == Json::parse(result));
    CHECK(text_of(first.folder / "result.json") == result);
    CHECK_FALSE(fs::exists(first.folder / ".lock"));
    CHECK(lines_in(folder / "starts.txt") == 1);
    return again.complete;
  };
  CHECK(raise({"trainer.max_epochs=1"}) ==
        "already complete: raise trainer.max_epochs (1 of 1 epochs are done)");
  CHECK(raise({"trainer.max_epochs=9", "trainer.max_steps=10"}) ==
        "already complete: raise trainer.max_steps (10 of 10 steps are done)");
  auto part = resume_request(with(request, {"trainer.max_epochs=9"}), first.folder);
  part.job.until_epoch = 1;
  CHECK(run(part).complete == "already complete: raise --until-epoch (1 of 1 epochs are done)");
  const auto longer = run(resume_request(with(request, {"trainer.max_epochs=2"}), first.folder));
  CHECK(longer.complete.empty());
  CHECK(lines_in(folder / "starts.txt") == 2);
}

TEST_CASE("resume: a run that failed after its last epoch only writes its result") {
  TempFolder folder;
  const auto request = with(
      fake_run::request(
          folder, with_start_count(folder, hello() + "if [ $N = 1 ]; then\n" +
                                               fake_run::emit(invented::epoch(0)) +
                                               copy_checkpoint(folder, 10) + kKillSelf + "fi\n" +
                                               fake_run::emit(events::Resumed{}) + finished())),
      {"trainer.max_epochs=1"});
  const auto failed = run(request);
  const auto resumed = run(resume_request(request, failed.folder));
  CHECK(resumed.complete.empty());
  CHECK(resumed.result["verdict"] == "ok");
}

TEST_CASE("resume: a run that ended at --until-epoch prints the command to continue") {
  TempFolder folder;
  auto request = with(fake_run::request(folder, hello() + fake_run::emit(invented::epoch(0)) +
                                                    copy_checkpoint(folder, 10) + finished()),
                      {"trainer.max_epochs=2"});
  request.job.until_epoch = 1;
  const auto part = run(request);
  CHECK(part.ending.exit_code == 0);
  CHECK_THAT(part.ending.resume_command, EndsWith(part.folder.string() + " --resume auto"));
  request.job.until_epoch = 2;
  CHECK(run(request).ending.resume_command.empty());
}

TEST_CASE("resume: the wall time includes all starts of the run") {
  TempFolder folder;
  const auto request = fake_run::request(
      folder,
      with_start_count(folder, hello() + copy_checkpoint(folder, 10) + "if [ $N -gt 1 ]; then " +
                                   fake_run::emit(events::Resumed{}) + "fi\n" + kKillSelf));
  const fs::path run_dir = run(request).folder;
  const auto resume_after = [&](const char* verdict, double wall_s) {
    Json result = Json::parse(text_of(run_dir / "result.json"));
    result["verdict"] = verdict;
    result["wall_s"] = wall_s;
    put_text(run_dir / "result.json", result.dump());
    fs::last_write_time(run_dir / "result.json",
                        fs::file_time_type::clock::now() - std::chrono::seconds(1000));
    return run(resume_request(request, run_dir)).result["wall_s"].get<double>();
  };
  const double failed_s = resume_after("failed", 500);
  CHECK(failed_s >= 500);
  CHECK(failed_s < 1400);
  // The start was killed 400 s after it began, and was resumed 600 s later. The last row is newer
  // than the checkpoint, so the resumed run rewrites its file.
  put_text(run_dir / "metrics.jsonl", "{\"step\":5}\n{\"step\":15}\n");
  const fs::file_time_type killed = fs::file_time_type::clock::now() - std::chrono::seconds(600);
  fs::last_write_time(run_dir / "metrics.jsonl", killed);
  for (const std::string& name : checkpoint::file_names(run_dir / "logs"))
    fs::last_write_time(run_dir / "logs" / name, killed);
  for (const char* name : {"epochs.csv", "timing.csv"}) {
    if (fs::exists(run_dir / name)) fs::last_write_time(run_dir / name, killed);
  }
  for (const auto& entry : fs::recursive_directory_iterator(run_dir / "checkpoints"))
    fs::last_write_time(entry.path(), killed);
  const double killed_s = resume_after("unfinished", 500);
  CHECK(killed_s >= 890);
  CHECK(killed_s < 1400);
}

TEST_CASE("resume: another config is an error before the folder changes") {
  TempFolder folder;
  const auto request = fake_run::request(
      folder, with_start_count(folder, hello() + copy_checkpoint(folder, 10) + kKillSelf));
  const auto failed = run(request);
  const std::string result = text_of(failed.folder / "result.json");
  auto changed =
      resume_request(with(request, {"optimizer.lr=0.5", "trainer.max_epochs=9"}), failed.folder);
  try {
    run(changed);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    CHECK_THAT(error.what(), Contains("optimizer.lr: 0.1 -> 0.5") && !Contains("max_epochs"));
  }
  CHECK(text_of(failed.folder / "result.json") == result);
  CHECK_FALSE(fs::exists(failed.folder / "superseded"));
  CHECK_FALSE(fs::exists(failed.folder / ".lock"));
}

TEST_CASE("resume: a harmless change is a warning on the console and in the log") {
  TempFolder folder;
  const auto request = fake_run::request(
      folder, with_start_count(
                  folder, hello() + "if [ $N = 1 ]; then " + fake_run::emit(invented::epoch(0)) +
                              copy_checkpoint(folder, 10) + kKillSelf + "fi\n" + finished()));
  const auto failed = run(request);
  const auto resumed = run(resume_request(with(request, {"trainer.max_epochs=9"}), failed.folder));
  CHECK(resumed.ending.exit_code == 0);
  REQUIRE(warnings_of(resumed).size() == 1);
  CHECK_THAT(warnings_of(resumed)[0], Contains("trainer.max_epochs: ~ -> 9"));
  CHECK_THAT(text_of(resumed.folder / "logs/rank_0.log"), Contains("trainer.max_epochs: ~ -> 9"));
}

TEST_CASE("resume: incomplete tables are reported once, by the start that detects them") {
  TempFolder folder;
  const auto request = fake_run::request(
      folder, with_start_count(
                  folder, hello() + "if [ $N = 1 ]; then " + copy_checkpoint(folder, 10) +
                              kKillSelf + "fi\nif [ $N = 2 ]; then\n" +
                              fake_run::emit(events::Resumed{}) + kKillSelf + "fi\n" + finished()));
  const auto failed = run(request);
  std::ofstream(failed.folder / "epochs.csv") << "epoch,step\n";
  const auto resumed = run(resume_request(request, failed.folder));
  REQUIRE(warnings_of(resumed).size() == 1);
  CHECK_THAT(warnings_of(resumed)[0],
             StartsWith("epochs.csv has no epoch, and the checkpoint is at step 10"));
  CHECK(warnings_of(run(resume_request(request, failed.folder))).empty());
}

TEST_CASE("resume: the result contains that a change of the config is not bitwise") {
  for (const std::string worker : {"", "the world size was 2 and is 1"}) {
    TempFolder folder;
    const events::Resumed resumes{.global_step = 10, .bitwise = worker.empty(), .why_not = worker};
    const auto request = fake_run::request(
        folder,
        with_start_count(folder, hello() + "if [ $N = 1 ]; then " + copy_checkpoint(folder, 10) +
                                     kKillSelf + "fi\n" + fake_run::emit(resumes) + finished()));
    const auto failed = run(request);
    const auto resumed =
        run(resume_request(with(request, {"trainer.num_threads=1"}), failed.folder));
    const Json& from = resumed.result["resumed_from"];
    CHECK(from["bitwise"] == false);
    CHECK(from["why_not"] ==
          worker + (worker.empty() ? "" : "; ") + "trainer.num_threads: auto -> 1");
  }
}

TEST_CASE("resume: other data ends the run with exit code 10, and the fingerprints are kept") {
  TempFolder folder;
  const std::string other =
      fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
      fake_run::emit(events::RunStarted{.data_fingerprints = {{"train", "bb"}}});
  const auto request = fake_run::request(
      folder,
      with_start_count(folder, "if [ $N = 1 ]; then " + hello() + copy_checkpoint(folder, 10) +
                                   kKillSelf + "fi\n" + other + finished()));
  const auto failed = run(request);
  for (int i = 0; i < 2; ++i) {
    const auto resumed = run(resume_request(request, failed.folder));
    CHECK(resumed.ending.exit_code == 10);
    CHECK_THAT(resumed.ending.message, Contains("dataset.train: aa -> bb"));
  }
}

TEST_CASE("resume: accepted other data is checked by the worker and recorded") {
  TempFolder folder;
  const std::string other =
      fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
      fake_run::emit(events::RunStarted{.data_fingerprints = {{"train", "bb"}}});
  const std::string job = "cp \"$3/task.json\" \"$3/task.$N\"\n";
  const auto request = fake_run::request(
      folder, with_start_count(folder, "if [ $N = 1 ]; then " + hello() +
                                           copy_checkpoint(folder, 10) + kKillSelf + "fi\n" + job +
                                           other + fake_run::emit(events::Resumed{}) + finished()));
  const auto failed = run(request);
  auto refused = resume_request(request, failed.folder);
  CHECK_THAT(run(refused).ending.message, Contains("--accept-data-change"));
  CHECK_FALSE(spec::parse_job(text_of(failed.folder / "task.2")).accepts_data_change);
  refused.resume->if_data_changed = study::IfDataChanged::restart_epoch;
  const auto accepted = run(refused);
  CHECK(accepted.ending.exit_code == 0);
  CHECK(spec::parse_job(text_of(failed.folder / "task.3")).accepts_data_change);
  const Json manifest = Json::parse(text_of(failed.folder / "manifest.json"));
  CHECK(manifest["data_fingerprints"]["train"] == "bb");
}

TEST_CASE("resume: a new run has no data to accept") {
  TempFolder folder;
  auto request =
      fake_run::request(folder, hello() + fake_run::emit(invented::epoch(0)) + finished());
  request.folder.fixed = folder / "run";
  request.resume = study::ResumeRequest{.if_data_changed = study::IfDataChanged::restart_epoch};
  const auto outcome = run(request);
  CHECK(outcome.ending.exit_code == 0);
  CHECK_FALSE(fs::exists(outcome.folder / spec::kJobFile));
}

TEST_CASE("resume: data is compared with that of the checkpoint, not of a later start") {
  for (const std::string now : {"aa", "bb"}) {
    TempFolder folder;
    checkpoint::Store store(folder / "made");
    fs::path made;
    checkpoint::Manifest manifest = saves::begin(store, 10, made);
    manifest.facts["data.train"] = now;
    store.commit(made, manifest);
    const auto request =
        fake_run::request(folder, with_start_count(folder, hello() + "if [ $N = 1 ]; then " +
                                                               copy_checkpoint(folder, 10) +
                                                               kKillSelf + "fi\n" + finished()));
    const auto failed = run(request);
    put_text(failed.folder / "manifest.json", R"({"data_fingerprints": {"train": "zz"}})");
    const auto resumed = run(resume_request(request, failed.folder));
    CHECK(resumed.ending.exit_code == (now == "aa" ? 0 : 10));
  }
}

TEST_CASE("restart: an exited process restarts from the newest checkpoint within the budget") {
  TempFolder folder;
  std::string script = one_epoch_per_start();
  for (const int step : {10, 20}) {
    script += "if [ $N = " + std::to_string(step / 10) + " ]; then " +
              copy_checkpoint(folder, step) + kKillSelf + "fi\n";
  }
  const auto request =
      with(fake_run::request(folder, with_start_count(folder, script + finished())),
           {"trainer.max_restarts=3"});
  const auto outcome = run(request);
  CHECK(outcome.ending.exit_code == 0);
  CHECK(lines_in(folder / "starts.txt") == 3);
  CHECK(outcome.result["restarts"] == 2);
  CHECK(outcome.result["resumed_from"]["step"] == 20);
  CHECK(outcome.result["epochs"] == 3);
  CHECK(lines_in(outcome.folder / "epochs.csv") == 4);
  REQUIRE(warnings_of(outcome).size() == 1);
  CHECK_THAT(warnings_of(outcome)[0], Contains("SIGKILL") &&
                                          Contains("restart 2 of 3 resumes from ") &&
                                          EndsWith(saves::name_of(20)));
}

TEST_CASE("restart: the budget is exact, and deterministic failures are not retried") {
  for (const auto& [end, code, starts] :
       {std::tuple{kKillSelf, 7, 3},
        std::tuple{fake_run::emit(events::Failed{.kind = 9, .message = "no data"}) + "exit 9\n", 9,
                   1}}) {
    TempFolder folder;
    const auto outcome =
        run(with(fake_run::request(folder, with_start_count(folder, hello() + end)),
                 {"trainer.max_restarts=2"}));
    CHECK(outcome.ending.exit_code == code);
    CHECK(lines_in(folder / "starts.txt") == starts);
    CHECK(outcome.result["restarts"] == starts - 1);
  }
}

TEST_CASE("restart: three restarts without a newer checkpoint end with exit code 93") {
  TempFolder folder;
  const auto outcome = run(
      with(fake_run::request(
               folder, with_start_count(folder, hello() + copy_checkpoint(folder, 10) + kKillSelf)),
           {"trainer.max_restarts=9"}));
  CHECK(outcome.ending.exit_code == 93);
  CHECK(lines_in(folder / "starts.txt") == 4);
  CHECK(outcome.result["restarts"] == 3);
  CHECK_THAT(outcome.ending.message, StartsWith("3 consecutive restarts") && Contains("SIGKILL"));
  CHECK(outcome.result["exit_code"] == 93);
}

TEST_CASE("restart: trials are not restarted") {
  TempFolder folder;
  const auto request =
      with(fake_run::request(folder, with_start_count(folder, hello() + kKillSelf)),
           {"trainer.max_restarts=2"});
  study::run_trial(request, steady_clock());
  CHECK(lines_in(folder / "starts.txt") == 1);
}
