#include "base/error.hpp"
#include "study/fake_run.hpp"
#include "study/workers/worker_jobs.hpp"
#include "support/catch.hpp"
#include "support/set_variable.hpp"

#include <string>

using namespace trainctl;

namespace {

events::Measured invented_cost() {
  events::Measured cost;
  cost.device = "cpu";
  cost.parameters = 1234;
  cost.measured_batches = {4, 8};
  return cost;
}

events::Measured measure(const std::string& script, bool times_steps = false) {
  const TempFolder folder;
  const study::RunRequest request = fake_run::request(folder, script);
  return study::measure_model({request.loaded, request.executable, times_steps});
}

std::string measured_line() {
  return fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
         fake_run::emit(invented_cost()) +
         fake_run::emit(events::Finished{.stop_reason = "measured"});
}

/// Returns a script line that continues only for a job of that kind.
std::string if_job_is(const std::string& kind) {
  return R"(grep -q '"kind": ")" + kind + R"("' "$3/task.json" || exit 1)" + "\n";
}

}  // namespace

TEST_CASE("model cost: a separate worker measures in a folder with the resolved config") {
  CHECK(measure("test -s \"$3/config.resolved.yaml\" || exit 1\n" + measured_line()).parameters ==
        1234);
  CHECK(measure(if_job_is("measure") + measured_line()).measured_batches ==
        std::vector<std::int64_t>{4, 8});
  CHECK(measure(if_job_is("probe") + measured_line(), true).device == "cpu");
}

TEST_CASE(
    "plan --devices: that many workers time their steps together, with the measured batch size") {
  const TempFolder folder;
  events::Measured timed = invented_cost();
  timed.ranks = 2;
  timed.step_s = 0.5;
  const std::string script =
      "test \"$WORLD_SIZE\" = 2 || exit 1\n"
      "test -n \"$TRAINCTL_STORE_FD\" || exit 1\n"
      "grep -q 'batch_size: 8' \"$3/config.resolved.yaml\" || exit 1\n"
      "grep -q 'devices: 2' \"$3/config.resolved.yaml\" || exit 1\n" +
      if_job_is("probe") + fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
      "test \"$RANK\" != 0 || " + fake_run::emit(timed) +
      fake_run::emit(events::Finished{.stop_reason = "measured"});
  const study::RunRequest request = fake_run::request(folder, script);
  const events::Measured found =
      study::measure_shared_steps({request.loaded, request.executable, true}, invented_cost(), 2);
  CHECK(found.ranks == 2);
  CHECK(found.step_s == 0.5);
}

TEST_CASE("model cost: the error of the worker is the error of the plan") {
  const std::string failing =
      fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
      fake_run::emit(events::Failed{.kind = 2, .message = "model vit_tiny: no"}) + "exit 2\n";
  try {
    (void)measure(failing);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    CHECK_THAT(error.what(), Contains("model vit_tiny: no") && !Contains("--no-model"));
  }
}

TEST_CASE("model cost: a killed or silent worker is an error with a hint") {
  try {
    (void)measure("kill -KILL $$\n");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::resource);
    CHECK_THAT(error.what(), Contains("SIGKILL") && Contains("--no-model"));
  }
  const std::string silent = fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
                             fake_run::emit(events::Finished{.stop_reason = "measured"});
  CHECK_THROWS_AS(measure(silent), Error);
}

TEST_CASE("model cost: the error for another signal contains the end of the log") {
  try {
    (void)measure("echo 'the end is near' >&2\nkill -SEGV $$\n");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::rank_failed);
    CHECK_THAT(error.what(), Contains("SIGSEGV") && Contains("the end is near") &&
                                 !Contains("loader.batch_size"));
  }
}

TEST_CASE("model cost: missing GPUs are refused as in a run") {
  const TempFolder folder;
  const SetVariable hidden("CUDA_VISIBLE_DEVICES", "");
  study::RunRequest request = fake_run::request(folder, measured_line());
  request.loaded.experiment.trainer.accelerator = spec::Accelerator::gpu;
  try {
    (void)study::measure_model({request.loaded, request.executable, /*times_steps=*/false});
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::resource);
    CHECK_THAT(error.what(), Contains("trainer.accelerator is gpu, but"));
  }
}

TEST_CASE("model cost: the worker gets the number of threads of a run") {
  const TempFolder folder;
  const SetVariable users("OMP_NUM_THREADS", "7");
  const auto threads = [](const std::string& number) {
    return "test \"$OMP_NUM_THREADS\" = " + number + " || exit 1\n" + measured_line();
  };
  CHECK(measure(threads("7")).parameters == 1234);
  study::RunRequest request = fake_run::request(folder, threads("3"));
  request.loaded.experiment.trainer.num_threads.value = 3;
  const events::Measured cost =
      study::measure_model({request.loaded, request.executable, /*times_steps=*/false});
  CHECK(cost.parameters == 1234);
}

TEST_CASE(
    "names_parameters: patterns need a worker that builds the model, an empty list does not") {
  const auto names = [](const std::string& patterns) {
    config::Diagnostics diagnostics;
    const std::string text =
        "name: patterns\n"
        "dataset: { train: { type: synthetic_digits } }\n"
        "model: { type: linear }\n"
        "optimizer: { type: sgd, lr: 0.1, no_weight_decay_on: " +
        patterns + " }\n";
    return study::names_parameters(
        spec::load_experiment_text("patterns.yaml", text, {}, diagnostics));
  };
  CHECK_FALSE(names("[]"));
  CHECK(names("[bias]"));
}
