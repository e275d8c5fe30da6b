#include "base/clock.hpp"
#include "study/fake_run.hpp"
#include "study/run/run_start.hpp"
#include "study/sweep/run_starter.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <cstdlib>

using namespace trainctl;
using namespace trainctl::study;

TEST_CASE("manifest: contains only listed environment variables") {
  ::setenv("OMP_NUM_THREADS", "3", 1);
  ::setenv("TCTL_SECRET_TOKEN", "hunter2", 1);
  report::RunRecord record;
  record.hellos[0].versions = {{"torch", "2.11.0"}};
  record.hellos[0].allocator = "jemalloc";
  events::RunStarted& started = record.started.emplace();
  started.data_fingerprints = {{"train", "00ff"}};
  started.num_threads = 2;
  started.num_threads_why = "asked";
  started.num_threads_taken = 0.5;
  const Json document = manifest({.argv = {"trainctl", "run"},
                                  .config_file = "a.yaml",
                                  .version = "1.2.3",
                                  .started_at = "now",
                                  .thread_waiting = "spin",
                                  .machine = read_machine()},
                                 record);
  CHECK(document["environment"]["OMP_NUM_THREADS"] == "3");
  CHECK(to_line(document).find("hunter2") == std::string::npos);
  CHECK(document["libraries"]["torch"] == "2.11.0");
  CHECK(document["data_fingerprints"]["train"] == "00ff");
  CHECK(document["allocator"] == "jemalloc");
  CHECK(document["weights"].is_null());
  CHECK(document["hardware"]["cores"] >= 1);
  CHECK(document["num_threads"]["value"] == 2);
  CHECK(document["num_threads"]["why"] == "asked");
  CHECK(document["num_threads"]["contended"] == true);
  CHECK(document["thread_waiting"] == "spin");
  CHECK(document["activation_checkpointing"].is_null());
}

TEST_CASE("manifest: the file of a run says whether choices of threads or workers were contended") {
  for (const auto& [taken, of_workers] : {std::pair{0.0, 0.25}, {0.5, 0.0}}) {
    TempFolder folder;
    const study::RunRequest request =
        fake_run::request(folder, fake_run::one_epoch({.max_epochs = 1,
                                                       .num_workers = 2,
                                                       .prefetch_factor = 2,
                                                       .num_workers_why = "probe",
                                                       .num_workers_taken = of_workers,
                                                       .num_threads = 3,
                                                       .num_threads_why = "probe",
                                                       .num_threads_taken = taken}));
    const RunOutcome outcome = run_experiment(
        request, [](const fs::path&) { return Sinks(); }, steady_clock());
    const Json document =
        Json::parse(read_file(outcome.folder / "manifest.json", 1 << 20, ReadFailure::resource));
    CHECK(document["num_threads"]["value"] == 3);
    CHECK(document["num_threads"]["contended"] == (taken > 0));
    CHECK(document["num_workers"]["contended"] == (of_workers > 0));
  }
}

TEST_CASE("manifest: contains the values that channels_last=auto and task=auto chose") {
  report::RunRecord record;
  CHECK(manifest({}, record)["channels_last"].is_null());
  record.started.emplace().channels_last = true;
  record.started->channels_last_why = "97 % of the operations are convolutions of images";
  record.started->task = "regression";
  const Json document = manifest({}, record);
  CHECK(document["task"] == "regression");
  CHECK(document["channels_last"]["value"] == true);
  CHECK(document["channels_last"]["why"] == "97 % of the operations are convolutions of images");
}

TEST_CASE("manifest: contains the precision of float32 products and the choice of benchmark=auto") {
  report::RunRecord record;
  CHECK(manifest({}, record)["fp32_precision"].is_null());
  CHECK(manifest({}, record)["benchmark"].is_null());
  record.started.emplace().fp32_precision = "tf32";
  record.started->fp32_precision_why = "trainer.float32_matmul_precision is high";
  record.started->benchmark = true;
  record.started->benchmark_why = "the batches have the same shape";
  const Json document = manifest({}, record);
  CHECK(document["fp32_precision"]["value"] == "tf32");
  CHECK(document["fp32_precision"]["why"] == "trainer.float32_matmul_precision is high");
  CHECK(document["benchmark"]["value"] == true);
  CHECK(document["benchmark"]["why"] == "the batches have the same shape");
}

TEST_CASE("manifest: contains the value that activation_checkpointing=auto chose and its reason") {
  report::RunRecord record;
  record.started.emplace().recomputes = true;
  record.started->recomputes_why = "activations need about 9.1 GiB";
  const Json document = manifest({}, record);
  CHECK(document["activation_checkpointing"]["value"] == "blocks");
  CHECK(document["activation_checkpointing"]["why"] == "activations need about 9.1 GiB");
}

TEST_CASE("git state: empty outside a repository") {
  const TempFolder folder;
  CHECK(git_state(folder.path()).commit.empty());
}

TEST_CASE("git state: commit and changes") {
  const TempFolder folder;
  const std::string git =
      "git -C " + folder.path().string() + " -c user.name=t -c user.email=t@example.org ";
  if (std::system((git + "init -q 2>/dev/null").c_str()) != 0) skip("git is not installed");
  write_atomically(folder / "a", "1");
  REQUIRE(std::system((git + "add a && " + git + "commit -qm first").c_str()) == 0);
  CHECK(git_state(folder.path()).commit.size() == 40);
  CHECK(git_state(folder.path()).status == "clean");
  write_atomically(folder / "a", "2");
  CHECK(git_state(folder.path()).status == "modified");
}

TEST_CASE("manifest: a run of a sweep gets the folder of the user's experiment file") {
  const TempFolder folder;
  const std::string print = "printf %s \"$" + std::string(kSourceFolder) + "\" > ";
  launch::SignalGuard guard;
  ChildProcess child({.argv = {"/bin/sh", "-c", print + (folder / "source").string()},
                      .log = folder / "log",
                      .share = {},
                      .experiment = folder / "mine" / "a.yaml"},
                     guard);
  const double end = steady_clock().now() + 60;
  while (!child.poll_exit_code() && steady_clock().now() < end) (void)wait_for_signals(guard, 0.02);
  CHECK(child.poll_exit_code() == 0);
  CHECK(golden::read(folder / "source") == (folder / "mine").string());
}

TEST_CASE("git state: from the config's folder, unless the experiment is in another folder") {
  ::unsetenv(kSourceFolder);
  CHECK(source_folder("sweep/configs/00ff.yaml") == "sweep/configs");
  ::setenv(kSourceFolder, "/mine", 1);
  CHECK(source_folder("sweep/configs/00ff.yaml") == "/mine");
  ::unsetenv(kSourceFolder);
}
