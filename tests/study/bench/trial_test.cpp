#include "study/bench/trials.hpp"
#include "study/fake_run.hpp"
#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("run_trial: returns the measurements of a run in new processes") {
  TempFolder folder;
  const auto trial = std::get<report::Trial>(
      study::run_trial(fake_run::request(folder, fake_run::two_epochs()), steady_clock()));
  CHECK(trial.epoch_s == std::vector<double>{2.5, 2});
  CHECK(trial.losses == std::vector<double>{0.25, 0.125});
  CHECK(trial.data_digest == "abc");
  CHECK(trial.startup_s == 0.25);
  CHECK(trial.total_s > 0);
}

TEST_CASE("run_trial: a killed worker is a failure with exit code, cause and folder") {
  TempFolder folder;
  const auto failure = std::get<report::TrialFailure>(
      study::run_trial(fake_run::request(folder, "kill -9 $$\n"), steady_clock()));
  CHECK(failure.exit_code == 7);
  CHECK_THAT(failure.message, Contains("SIGKILL") && Contains((folder / "runs").string()));
}

TEST_CASE("run_trial: a run that exceeds its deadline is killed and marked overdue") {
  TempFolder folder;
  const Clock& clock = steady_clock();
  const auto failure = std::get<report::TrialFailure>(
      study::run_trial(fake_run::request(folder, "sleep 600\n"), clock, clock.now() + 0.3));
  CHECK(failure.overdue);
  CHECK_THAT(failure.message, Contains("exceeded its time limit"));
}

TEST_CASE("run_trial: an unusable folder is a failure") {
  TempFolder folder;
  study::RunRequest request = fake_run::request(folder, fake_run::two_epochs());
  request.folder.root = folder / "worker.sh";
  CHECK(std::get<report::TrialFailure>(study::run_trial(request, steady_clock())).exit_code == 11);
}

TEST_CASE("warm_up: returns the number of threads") {
  TempFolder folder;
  CHECK(study::warm_up(fake_run::request(folder, fake_run::two_epochs()), steady_clock()).threads ==
        3);
  CHECK_FALSE(study::warm_up(fake_run::request(folder, "exit 1\n"), steady_clock()).threads);
}

TEST_CASE("warm_up: a run that exceeds its deadline is killed and marked overdue") {
  TempFolder folder;
  const Clock& clock = steady_clock();
  const study::WarmUp late =
      study::warm_up(fake_run::request(folder, "sleep 600\n"), clock, clock.now() + 0.3);
  CHECK(late.overdue);
  CHECK_FALSE(late.stopped);
  CHECK_FALSE(late.threads);
}
