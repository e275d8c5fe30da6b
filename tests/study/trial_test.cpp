#include "study/trial.hpp"

#include "base/error.hpp"
#include "events/codec.hpp"
#include "report/invented.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <sys/stat.h>

#include <fstream>

using namespace trainctl;

namespace {

// A shell script in the place of `trainctl worker`.
study::RunRequest request_with_worker(const TempFolder& folder, const std::string& script) {
  const fs::path worker = folder / "worker.sh";
  std::ofstream(worker) << "#!/bin/sh\n" << script;
  ::chmod(worker.c_str(), 0755);
  const fs::path file = folder / "experiment.yaml";
  std::ofstream(file) << "name: fake\n"
                         "dataset: { train: { type: synthetic_digits } }\n"
                         "model: { type: linear }\n"
                         "optimizer: { type: sgd, lr: 0.1 }\n"
                         "trainer: { accelerator: cpu }\n";
  config::Diagnostics diagnostics;
  study::RunRequest request;
  request.loaded = spec::load_experiment(file, {}, diagnostics);
  request.config_file = file;
  request.folder = {.name = "fake", .root = folder / "runs"};
  request.executable = worker;
  return request;
}

std::string say(const events::Event& event) {
  return "printf '%s\\n' '" + events::encode(event) + "' >&\"$TRAINCTL_EVENT_FD\"\n";
}

}  // namespace

TEST_CASE("a trial is what a run in fresh processes told") {
  TempFolder folder;
  const std::string script =
      say(events::Hello{.host = "here", .device = "cpu", .startup_s = 0.25}) +
      say(events::RunStarted{.max_epochs = 2}) + say(invented::epoch(0)) + say(invented::epoch(1)) +
      say(events::Finished{.epochs = 2, .global_step = 1876, .data_digest = "abc", .stop_reason = "max_epochs"});
  const report::Trial trial = study::run_trial(request_with_worker(folder, script), steady_clock());
  CHECK(trial.epoch_s == std::vector<double>{2.5, 2});
  CHECK(trial.losses == std::vector<double>{0.25, 0.125});
  CHECK(trial.data_digest == "abc");
  CHECK(trial.startup_s == 0.25);
  CHECK(trial.total_s > 0);
}

TEST_CASE("a trial whose worker dies is an error with the run's exit code, cause and folder") {
  TempFolder folder;
  try {
    study::run_trial(request_with_worker(folder, "kill -9 $$\n"), steady_clock());
    FAIL("it ran through");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::rank_failed);
    CHECK_THAT(error.what(), Contains("SIGKILL") && Contains((folder / "runs").string()));
  }
}
