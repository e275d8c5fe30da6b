#include "base/error.hpp"
#include "checkpoint/saves.hpp"
#include "study/bench/trials.hpp"
#include "study/fake_run.hpp"
#include "study/run/restarts.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"

#include <csignal>

using namespace trainctl;
using fake_run::resume_request;

namespace {

int entries_in(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

Json read_result(const fs::path& folder) {
  return Json::parse(read_file(folder / "result.json", 1 << 20, ReadFailure::resource));
}

/// Returns a run whose worker diverges until its resolved config contains `resolved`.
study::RunRequest request(const TempFolder& folder, const std::string& resolved,
                          const std::vector<std::string>& overrides) {
  const std::string diverges =
      fake_run::emit(events::Failed{.kind = 6, .message = "the loss is nan"}) + "exit 6\n";
  study::RunRequest request =
      fake_run::request(folder, "echo $3 > \"$3/checkpoints/of_this_attempt\"\nif ! grep -q '" +
                                    resolved + "' \"$3/config.resolved.yaml\"; then\n" + diverges +
                                    "fi\n" + fake_run::two_epochs());
  config::Diagnostics diagnostics;
  request.loaded = spec::load_experiment(request.config_file, overrides, diagnostics);
  return request;
}

/// Returns the same run, killed at the first start whose resolved config contains `when`, after
/// `before`.
study::RunRequest killed_once(const TempFolder& folder, const std::string& when,
                              const std::string& before) {
  study::RunRequest killed = request(
      folder, "lr: 0.001", {"trainer.on_divergence=[optimizer.lr=0.01, optimizer.lr=0.001]"});
  const std::string script = read_file(killed.executable, 1 << 20, ReadFailure::resource);
  const std::string mark = "'" + (folder / "killed").string() + "'";
  std::ofstream(killed.executable)
      << "#!/bin/sh\nif grep -q '" << when << "' \"$3/config.resolved.yaml\" && [ ! -e " << mark
      << " ]; then\ntouch " << mark << "\n"
      << before << "kill -9 $$\nfi\n"
      << script;
  return killed;
}

/// Runs the request and adds its warnings to `warnings`.
study::RunOutcome run(const study::RunRequest& request, std::vector<std::string>& warnings) {
  struct Listener final : report::Sink {
    explicit Listener(std::vector<std::string>& destination) : messages(destination) {}
    void on_event(int /*rank*/, const events::Event& event) override {
      if (const auto* warning = std::get_if<events::Warning>(&event))
        messages.push_back(warning->message);
    }
    void on_tick(double /*now*/) override {}
    void close() override {}
    std::vector<std::string>& messages;
  };
  const auto make_sinks = [&](const fs::path&) {
    study::Sinks sinks;
    sinks.push_back(std::make_unique<Listener>(warnings));
    return sinks;
  };
  return study::run_experiment(request, make_sinks, steady_clock());
}

}  // namespace

TEST_CASE("attempts: a diverged run restarts with the next overrides in the same folder") {
  TempFolder folder;
  std::vector<std::string> warnings;
  const auto outcome = run(request(folder, "lr: 0.001",
                                   {"trainer.on_divergence=[optimizer.lr=0.01, "
                                    "[optimizer.lr=0.001, +trainer.gradient_clip_val=1.0]]"}),
                           warnings);
  CHECK(outcome.ending.exit_code == 0);
  const Json result = read_result(outcome.folder);
  CHECK(result["verdict"] == "ok");
  REQUIRE(result["attempts"].size() == 3);
  CHECK(result["attempts"][0]["overrides"] == Json::array());
  CHECK(result["attempts"][0]["exit_code"] == 6);
  CHECK(result["attempts"][0]["folder"] == "attempt-1");
  CHECK(result["attempts"][1]["overrides"] == Json{"optimizer.lr=0.01"});
  CHECK(result["attempts"][2]["overrides"] ==
        Json{"optimizer.lr=0.001", "+trainer.gradient_clip_val=1.0"});
  CHECK(result["attempts"][2]["folder"].is_null());
  CHECK(read_result(outcome.folder / "attempt-2")["verdict"] == "diverged");
  for (const char* below : {"", "attempt-1", "attempt-2"})
    CHECK(fs::exists(outcome.folder / below / "checkpoints/of_this_attempt"));
  CHECK_FALSE(fs::exists(outcome.folder / "attempt-3"));
  REQUIRE_FALSE(warnings.empty());
  CHECK_THAT(warnings.front(), StartsWith("attempt 1 diverged (") &&
                                   EndsWith("attempt 2 of 3 starts from the beginning with "
                                            "optimizer.lr=0.01"));
}

TEST_CASE("attempts: without further overrides the verdict is diverged") {
  TempFolder folder;
  std::vector<std::string> warnings;
  const auto outcome =
      run(request(folder, "lr: 7", {"trainer.on_divergence=[optimizer.lr=0.01]"}), warnings);
  CHECK(outcome.ending.exit_code == 6);
  const Json result = read_result(outcome.folder);
  CHECK(result["verdict"] == "diverged");
  CHECK(result["attempts"].size() == 2);
  CHECK(fs::exists(outcome.folder / "attempt-1"));
  CHECK_FALSE(fs::exists(outcome.folder / "attempt-2"));
}

TEST_CASE("attempts: only divergence starts another attempt, and only with on_divergence") {
  TempFolder folder;
  std::vector<std::string> warnings;
  study::RunRequest killed =
      request(folder, "lr: 7", {"trainer.on_divergence=[optimizer.lr=0.01]"});
  std::ofstream(killed.executable) << "#!/bin/sh\nkill -9 $$\n";
  const auto outcome = run(killed, warnings);
  CHECK(outcome.ending.exit_code == 7);
  CHECK(outcome.result["attempts"].size() == 1);
  CHECK_FALSE(fs::exists(outcome.folder / "attempt-1"));

  TempFolder other;
  const auto plain = run(request(other, "lr: 7", {}), warnings);
  CHECK(plain.ending.exit_code == 6);
  CHECK_FALSE(plain.result.contains("attempts"));
  CHECK(warnings.empty());
}

TEST_CASE("attempts: only training is restarted, and trials are not") {
  TempFolder folder;
  const study::RunRequest asked =
      request(folder, "lr: 7", {"trainer.on_divergence=[optimizer.lr=0.01]"});
  const report::RunResult diverged{.verdict = "diverged", .exit_code = 6};
  for (const auto kind : {spec::JobKind::evaluate, spec::JobKind::predict}) {
    study::RunRequest other = asked;
    other.job.kind = kind;
    study::Attempts attempts(other, folder / "nowhere");
    CHECK_FALSE(attempts.after(diverged));
    CHECK(attempts.with_last(diverged).empty());
  }
  const auto trial = std::get<report::TrialFailure>(study::run_trial(asked, steady_clock()));
  CHECK(trial.exit_code == 6);
  for (const auto& entry : fs::directory_iterator(folder / "runs"))
    CHECK_FALSE(fs::exists(entry.path() / "attempt-1"));
}

TEST_CASE("attempts: the message of an attempt has the paths after the move") {
  TempFolder folder;
  const auto asked = request(folder, "lr: 7", {"trainer.on_divergence=[optimizer.lr=0.01]"});
  const fs::path run_dir = folder / "run";
  put_text(run_dir / "diverged/step=000003/rank_0.part", "dump");
  const std::string was = (run_dir / "diverged/step=000003").string();
  study::Attempts attempts(asked, run_dir);
  REQUIRE(attempts
              .after({.verdict = "diverged",
                      .exit_code = 6,
                      .message = "see " + was + ", and repeat it with --replay-step " + was})
              .has_value());
  const std::string is = (run_dir / "attempt-1/diverged/step=000003").string();
  CHECK(fs::exists(is));
  CHECK(attempts.with_last({}).front().message ==
        "see " + is + ", and repeat it with --replay-step " + is);
  CHECK_THAT(attempts.notice(study::Attempts::StartFrom::beginning),
             Contains(is) && !Contains(was));
}

TEST_CASE("attempts: invalid overrides do not change the folder of the attempt") {
  TempFolder folder;
  study::RunRequest asked = request(folder, "lr: 7", {});
  asked.loaded.experiment.trainer.on_divergence.push_back({{"optimizer.rate=1"}});
  std::vector<std::string> warnings;
  const auto outcome = run(asked, warnings);
  CHECK(outcome.ending.exit_code == 6);
  CHECK(read_result(outcome.folder)["verdict"] == "diverged");
  CHECK_FALSE(fs::exists(outcome.folder / "attempt-1"));
}

TEST_CASE("attempts: after a signal there is no further attempt, even if the workers have exited") {
  struct Stopper final : report::Sink {
    void on_event(int /*rank*/, const events::Event& /*event*/) override {}
    void on_tick(double /*now*/) override {}
    void close() override { std::raise(SIGTERM); }
  };
  TempFolder folder;
  const auto make_sinks = [](const fs::path&) {
    study::Sinks sinks;
    sinks.push_back(std::make_unique<Stopper>());
    return sinks;
  };
  const auto outcome = study::run_experiment(
      request(folder, "lr: 0.01", {"trainer.on_divergence=[optimizer.lr=0.01]"}), make_sinks,
      steady_clock());
  CHECK(outcome.ending.exit_code == 6);
  CHECK_FALSE(fs::exists(outcome.folder / "attempt-1"));
}

TEST_CASE("attempts: a resumed run continues the numbering and no attempt reuses a folder") {
  TempFolder folder;
  std::vector<std::string> warnings;
  const auto request = killed_once(folder, "lr: 0.01", "");
  const auto killed = run(request, warnings);
  CHECK(killed.ending.exit_code == 7);
  REQUIRE(killed.result["attempts"].size() == 2);
  put_text(killed.folder / "attempt-2/mine.txt", "mine");

  const auto resumed = run(resume_request(request, killed.folder), warnings);
  CHECK(resumed.ending.exit_code == 0);
  const Json& attempts = resumed.result["attempts"];
  REQUIRE(attempts.size() == 3);
  CHECK(attempts[0]["folder"] == "attempt-1");
  CHECK(attempts[0]["message"] == killed.result["attempts"][0]["message"]);
  CHECK(attempts[2]["overrides"] == Json{"optimizer.lr=0.001"});
  CHECK(read_result(killed.folder / "attempt-1")["attempts"].size() == 1);
  CHECK(attempts[1]["folder"] == "attempt-3");
  CHECK(fs::exists(killed.folder / "attempt-3/checkpoints/of_this_attempt"));
  CHECK(entries_in(killed.folder / "attempt-2") == 1);
}

TEST_CASE("attempts: the original command resumes the attempt that was killed") {
  for (const std::string file : {"as typed", "resolved"}) {
    TempFolder folder;
    std::vector<std::string> warnings;
    checkpoint::Store store(folder / "made");
    const fs::path made = saves::save(store, 10);
    auto request =
        killed_once(folder, "lr: 0.001", "cp -r '" + made.string() + "' \"$3/checkpoints/\"\n");
    const auto killed = run(request, warnings);
    CHECK(killed.ending.exit_code == 7);
    if (file == "resolved") {
      config::Diagnostics ignored;
      request.config_file = killed.folder / "config.resolved.yaml";
      request.loaded = spec::load_experiment(request.config_file, {}, ignored);
    }
    warnings.clear();
    const auto resumed = run(resume_request(request, killed.folder), warnings);
    INFO(file);
    CHECK(resumed.ending.exit_code == 0);
    CHECK(resumed.result["resumed_from"]["step"] == 10);
    CHECK(resumed.result["attempts"].size() == 3);
    REQUIRE_FALSE(warnings.empty());
    CHECK_THAT(warnings.front(), EndsWith("attempt 3 of 3 resumes with optimizer.lr=0.001"));
    CHECK_THAT(read_file(resumed.folder / "config.resolved.yaml", 1 << 20, ReadFailure::resource),
               Contains("lr: 0.001"));
  }
}

TEST_CASE("attempts: a result with another format of attempts is ignored") {
  TempFolder folder;
  auto asked = request(folder, "lr: 7", {"trainer.on_divergence=[optimizer.lr=0.01]"});
  asked.resume = study::parse_resume("auto");
  for (const char* text : {"{", "[]", "{\"attempts\": [7]}", "{\"attempts\": []}"}) {
    INFO(text);
    put_text(folder / "run/result.json", text);
    const study::Attempts attempts(asked, folder / "run");
    CHECK_FALSE(attempts.is_another());
    CHECK(attempts.with_last({}).size() == 1);
  }
}
