#include "report/text/run_summary.hpp"

#include "report/invented.hpp"
#include "report/record/run_result.hpp"
#include "report/text/job_results.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

RunResult killed() {
  RunResult ending = invented::ending();
  ending.verdict = "failed";
  ending.exit_code = 7;
  ending.message = "rank 0 was killed by SIGKILL at step 1,234";
  ending.first_failure = events::RankFailure{.rank = 0,
                                             .host = "node7",
                                             .pid = 4242,
                                             .signal = 9,
                                             .signal_name = "SIGKILL",
                                             .step = 1234,
                                             .phase = "train",
                                             .collective = "all-reduce of the gradients",
                                             .log_tail = "loading\nepoch 1 \x1b[31mred\n\nbye\n"};
  ending.resume_command = "trainctl run configs/mnist/ffn.yaml --run-dir runs/x --resume auto";
  return ending;
}

}  // namespace

TEST_CASE("run summary: separates warm-up and ends with the next command") {
  check_golden("report/summary.txt", summary_text(invented::run(), invented::ending(), {}));
}

TEST_CASE("run summary: a run without an epoch shows no averages") {
  const std::string text = summary_text(RunRecord{}, invented::ending(), {});
  CHECK_THAT(text, Contains("0 epochs, 0 steps"));
  CHECK_THAT(text, !Contains("nan") && !Contains("speed"));
}

TEST_CASE("run summary: shows a configured mode, and omits an unknown one") {
  RunResult ending = invented::ending();
  ending.best_mode.inferred = false;
  CHECK_THAT(summary_text(invented::run(), ending, {}),
             Contains("0.9700 (higher is better) at epoch 3"));
  ending.best_mode = {};
  CHECK_THAT(summary_text(invented::run(), ending, {}), Contains("0.9700 at epoch 3"));
  CHECK(result_document(invented::run(), ending)["best"]["mode"].is_null());
}

TEST_CASE("run summary: shows the test after training, and which weights it used") {
  RunRecord record = invented::run();
  record.add(0, events::Evaluated{.split = "test",
                                  .checkpoint = "best",
                                  .metrics = {{"test/loss", 0.25}, {"test/accuracy", 0.5}}});
  CHECK_THAT(summary_text(record, invented::ending(), {}),
             Contains("test/loss 0.25") && Contains("(best weights)"));
  const Json result = result_document(record, invented::ending());
  CHECK(result["test"]["accuracy"] == 0.5);
  CHECK(result["test_weights"] == "best");
}

TEST_CASE("run summary: shows the profile of a profiled run") {
  RunResult ending = invented::ending();
  CHECK_THAT(summary_text(invented::run(), ending, {}), !Contains("profile"));
  ending.profile = "profile/trace.json; aten::addmm takes 31 % of the time of all operators";
  CHECK_THAT(summary_text(invented::run(), ending, {}), Contains("aten::addmm takes 31 %"));
}

TEST_CASE("run summary: the speed of a single epoch is marked as including warm-up") {
  CHECK_THAT(summary_text(invented::run(1), invented::ending(), {}),
             Contains("the only epoch, which includes warm-up"));
}

TEST_CASE("run summary: the next command has overrides and output folder, quoted for a shell") {
  RunResult ending = invented::ending();
  ending.command = {.program = "bin/trainctl",
                    .config = "my configs/a.yaml",
                    .overrides = {"~early_stopping", "seed=3", "trainer.devices=1"},
                    .out = "elsewhere"};
  CHECK_THAT(summary_text(invented::run(), ending, {}),
             Contains("bin/trainctl bench 'my configs/a.yaml' '~early_stopping' seed=3 --devices "
                      "1,2 --out elsewhere"));
}

TEST_CASE("run summary: the next command of a multi-node run can be entered on its node") {
  RunResult ending = invented::ending();
  ending.command.overrides = {"trainer.num_nodes=2", "seed=3"};
  ending.command.node_flags = {"--node-rank", "0", "--rdzv-endpoint", "10.0.0.1:29500"};
  ending.command.nodes = 2;
  CHECK_THAT(summary_text(invented::run(), ending, {}),
             Contains("ffn.yaml seed=3 trainer.num_nodes=1 --devices 1,2\n"));
  RunRecord saves = invented::run();
  for (auto& epoch : saves.epochs) epoch.timing.checkpoint_s = epoch.timing.wall_s / 2;
  CHECK_THAT(summary_text(saves, ending, {}),
             Contains("run configs/mnist/ffn.yaml trainer.num_nodes=2 seed=3") &&
                 Contains("checkpoint.every_n_epochs=5 --node-rank 0 --rdzv-endpoint "
                          "10.0.0.1:29500\n"));
}

TEST_CASE("run summary: the first line has the reason of early stopping") {
  RunRecord record = invented::run();
  record.add(0,
             events::StoppedEarly{.epoch = 3, .reason = "val/loss has not improved for 3 epochs"});
  CHECK_THAT(summary_text(record, invented::ending(), {}),
             Contains("stopped early: val/loss has not improved"));
}

TEST_CASE("run summary: the first line says that trainer.max_time ended the run") {
  RunRecord record = invented::run();
  record.add(0, events::Finished{.epochs = 2, .stop_reason = "max_time"});
  CHECK_THAT(summary_text(record, invented::ending(), {}),
             Contains(", because trainer.max_time is over\n"));
}

TEST_CASE("failure_text: has rank, signal, step, checkpoint, end of the log and the next command") {
  check_golden("report/failure.txt", failure_text(invented::run(2), killed(), {}));
}

TEST_CASE("failure_text: saved weights are listed with the step of their last write") {
  RunRecord record = invented::run(2);
  record.add(0, events::CheckpointSaved{
                    .path = "checkpoints/last.safetensors", .epoch = 1, .global_step = 1900});
  CHECK_THAT(failure_text(record, killed(), {}),
             Contains("checkpoints/best.safetensors (step 1,876), checkpoints/last.safetensors "
                      "(step 1,900); weights only: a run cannot resume from it"));
  CHECK(result_document(record, killed())["checkpoint"]["path"] == "checkpoints/last.safetensors");
  CHECK(result_document(record, killed())["checkpoint"]["step"] == 1900);
}

TEST_CASE("failure_text: names the resumable checkpoint instead of the saved weights") {
  RunRecord record = invented::run(2);
  record.add(0, events::CheckpointSaved{.path = "checkpoints/epoch=0001-step=000938",
                                        .epoch = 1,
                                        .global_step = 938,
                                        .metric = "val/accuracy",
                                        .verified = true});
  RunResult ending = killed();
  ending.checkpoint = SavedState{"checkpoints/epoch=0001-step=000938", 938, true};
  CHECK_THAT(failure_text(record, ending, {}),
             Contains("saved    checkpoints/epoch=0001-step=000938 (step 938), verified\n") &&
                 !Contains("weights only"));
  const Json result = result_document(record, ending);
  CHECK(result["checkpoint"]["path"] == "checkpoints/epoch=0001-step=000938");
  CHECK(result["checkpoint"]["verified"] == true);
  CHECK(result["best"]["checkpoint"] == "checkpoints/best.safetensors");
}

TEST_CASE("failure_text: restarts are shown if there were any, with their result") {
  RunResult ending = killed();
  CHECK_THAT(failure_text(invented::run(2), ending, {}), !Contains("restarts"));
  ending.restarts = 2;
  CHECK_THAT(failure_text(invented::run(2), ending, {}), Contains("restarts 2\n"));
  ending.restarts = 3;
  ending.exit_code = 93;
  CHECK_THAT(failure_text(invented::run(2), ending, {}),
             Contains("restarts 3; the last restarts saved no newer checkpoint"));
}

TEST_CASE("failure_text: a requested stop is not shown as an error") {
  RunResult ending = invented::ending();
  ending.verdict = "stopped";
  ending.exit_code = 75;
  ending.message = "stopped by SIGTERM";
  CHECK_THAT(failure_text(invented::run(2), ending, {}),
             StartsWith("stopped: stopped by SIGTERM\n"));
}

TEST_CASE("result.json: has the checkpoint of a resumed run and whether it is bitwise identical") {
  RunRecord record = invented::run(2);
  RunResult ending = invented::ending();
  CHECK(result_document(record, ending)["resumed_from"].is_null());
  ending.resumed_from = SavedState{"checkpoints/epoch=0001-step=000938", 938, true};
  record.add(0, events::Resumed{.global_step = 938, .bitwise = false, .why_not = "2 threads"});
  const Json resumed = result_document(record, ending)["resumed_from"];
  CHECK(resumed["step"] == 938);
  CHECK(resumed["bitwise"] == false);
  CHECK(resumed["why_not"] == "2 threads");
}

TEST_CASE("epochs_done: epochs before a resume count even without their rows") {
  RunRecord record;
  record.add(0, invented::epoch(4));
  CHECK(epochs_done(record) == 5);
  CHECK(epochs_done(RunRecord{}) == 0);
  CHECK(result_document(record, invented::ending())["epochs"] == 5);
}

TEST_CASE("failure_text: a hung rank is not described as killed by a signal") {
  RunResult ending = killed();
  ending.verdict = "hang";
  CHECK_THAT(failure_text(invented::run(2), ending, {}),
             StartsWith("error: rank 0 of 1 stopped answering at step"));
}

TEST_CASE("failure_text: the number of ranks includes those that never reported") {
  RunRecord record;
  record.planned_ranks = 2;
  record.add(0, events::Hello{});
  RunResult ending = killed();
  ending.first_failure->rank = 1;
  CHECK_THAT(failure_text(record, ending, {}), StartsWith("error: rank 1 of 2 was killed by"));
  CHECK(result_document(record, ending)["world_size"] == 2);
  CHECK(evaluation_document(record, ending)["world_size"] == 2);
}

TEST_CASE("failure_text: a failure without a rank shows only message and checkpoint") {
  RunResult ending;
  ending.exit_code = 11;
  ending.message = "runs: read-only file system";
  CHECK(failure_text(RunRecord{}, ending, {}) ==
        "error: runs: read-only file system\n  saved    none: no checkpoint was written yet\n");
}

TEST_CASE("failure_text: a list in a message has one item per line") {
  RunResult ending;
  ending.exit_code = 10;
  ending.verdict = "failed";
  ending.message = "the data changed:\n  dataset.train: aa -> b\x1b\nhint: bring it back";
  CHECK_THAT(failure_text(RunRecord{}, ending, {}),
             StartsWith("error: the data changed:\n  dataset.train: aa -> b\\x1b\nhint: bring it "
                        "back\n"));
  ending.first_failure = events::RankFailure{.exit_code = 10, .message = "two lines:\none"};
  CHECK_THAT(failure_text(RunRecord{}, ending, {}),
             Contains("  cause    two lines:\n           one\n"));
}

TEST_CASE("result.json: has every documented key") {
  check_golden("report/result.json",
               to_pretty(result_document(invented::run(), invented::ending())) + "\n");
  check_golden("report/result_failed.json",
               to_pretty(result_document(invented::run(2), killed())) + "\n");
}

TEST_CASE("result.json: a run that never started has the same keys") {
  const Json whole = result_document(invented::run(), invented::ending());
  const Json empty = result_document(
      RunRecord{}, RunResult{.verdict = "failed", .exit_code = 9, .message = "no data"});
  for (const auto& [key, value] : whole.items()) CHECK(empty.contains(key));
  CHECK(empty.size() == whole.size());
  CHECK(empty["best"].is_null());
  CHECK(empty["samples_per_s"] == 0.0);
  CHECK(empty["bottleneck"]["verdict"] == "balanced");
}
