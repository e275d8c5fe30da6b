#include "study/trial.hpp"

#include "base/error.hpp"
#include "study/fake_run.hpp"
#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("a trial is what a run in fresh processes told") {
  TempFolder folder;
  const report::Trial trial = study::run_trial(fake_run::request(folder, fake_run::two_epochs()), steady_clock());
  CHECK(trial.epoch_s == std::vector<double>{2.5, 2});
  CHECK(trial.losses == std::vector<double>{0.25, 0.125});
  CHECK(trial.data_digest == "abc");
  CHECK(trial.startup_s == 0.25);
  CHECK(trial.total_s > 0);
}

TEST_CASE("a trial whose worker dies is an error with the run's exit code, cause and folder") {
  TempFolder folder;
  try {
    study::run_trial(fake_run::request(folder, "kill -9 $$\n"), steady_clock());
    FAIL("it ran through");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::rank_failed);
    CHECK_THAT(error.what(), Contains("SIGKILL") && Contains((folder / "runs").string()));
  }
}
