#include "report/text/run_summary.hpp"

#include "report/invented.hpp"
#include "report/record/run_result.hpp"
#include "report/text/task_results.hpp"
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
  ending.first_failure = FirstFailure{.rank = 0,
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

TEST_CASE("the summary keeps warm-up apart and ends with the next command") {
  check_golden("report/summary.txt", summary_text(invented::run(), invented::ending(), {}));
}

TEST_CASE("the summary of a run without an epoch says so and shows no averages") {
  const std::string text = summary_text(RunRecord{}, invented::ending(), {});
  CHECK_THAT(text, Contains("0 epochs, 0 steps"));
  CHECK_THAT(text, !Contains("nan") && !Contains("speed"));
}

TEST_CASE("run summary: shows a configured mode, and omits an unknown one") {
  RunResult ending = invented::ending();
  ending.best_mode.inferred = false;
  CHECK_THAT(summary_text(invented::run(), ending, {}), Contains("0.9700 (max) at epoch 3"));
  ending.best_mode = {};
  CHECK_THAT(summary_text(invented::run(), ending, {}), Contains("0.9700 at epoch 3"));
  CHECK(result_document(invented::run(), ending)["best"]["mode"].is_null());
}

TEST_CASE("the summary of a run that was recorded says where") {
  RunResult ending = invented::ending();
  CHECK_THAT(summary_text(invented::run(), ending, {}), !Contains("profile"));
  ending.profile = "profile/trace.json; aten::addmm takes 31 % of the operators' time";
  CHECK_THAT(summary_text(invented::run(), ending, {}), Contains("aten::addmm takes 31 %"));
}

TEST_CASE("a run of one epoch says that its speed includes the warm-up") {
  CHECK_THAT(summary_text(invented::run(1), invented::ending(), {}),
             Contains("one epoch, warm-up included"));
}

TEST_CASE("the next command keeps the overrides and the folder of the run, quoted for a shell") {
  RunResult ending = invented::ending();
  ending.command = {.program = "bin/trainctl",
                    .config = "my configs/a.yaml",
                    .overrides = {"~early_stopping", "seed=3", "trainer.devices=1"},
                    .out = "elsewhere"};
  CHECK_THAT(summary_text(invented::run(), ending, {}),
             Contains("bin/trainctl bench 'my configs/a.yaml' '~early_stopping' seed=3 --devices "
                      "1,2 --out elsewhere"));
}

TEST_CASE("the next command of a run on several nodes can be typed on the node") {
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

TEST_CASE("early stopping and its reason are in the first line") {
  RunRecord record = invented::run();
  record.add(0,
             events::StoppedEarly{.epoch = 3, .reason = "val/loss has not improved for 3 epochs"});
  CHECK_THAT(summary_text(record, invented::ending(), {}),
             Contains("stopped early: val/loss has not improved"));
}

TEST_CASE(
    "a failure names rank, signal, step, what was saved, the log's end and the next command") {
  check_golden("report/failure.txt", failure_text(invented::run(2), killed(), {}));
}

TEST_CASE("a failure names the weights that were saved, each file as it was written last") {
  RunRecord record = invented::run(2);
  record.add(0, events::CheckpointSaved{
                    .path = "checkpoints/last.safetensors", .epoch = 1, .global_step = 1900});
  CHECK_THAT(failure_text(record, killed(), {}),
             Contains("checkpoints/best.safetensors (step 1,876), checkpoints/last.safetensors "
                      "(step 1,900); weights only, cannot be resumed"));
  CHECK(result_document(record, killed())["checkpoint"]["path"] == "checkpoints/last.safetensors");
  CHECK(result_document(record, killed())["checkpoint"]["step"] == 1900);
}

TEST_CASE("run summary: a failure names the resumable checkpoint, not the saved weights") {
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

TEST_CASE("run summary: restarts are shown if there were any, with their result") {
  RunResult ending = killed();
  CHECK_THAT(failure_text(invented::run(2), ending, {}), !Contains("restarts"));
  ending.restarts = 2;
  CHECK_THAT(failure_text(invented::run(2), ending, {}), Contains("restarts 2\n"));
  ending.restarts = 3;
  ending.exit_code = 93;
  CHECK_THAT(failure_text(invented::run(2), ending, {}),
             Contains("restarts 3, and the last ones saved no newer checkpoint"));
}

TEST_CASE("a run that stopped when asked to has not failed") {
  RunResult ending = invented::ending();
  ending.verdict = "stopped";
  ending.exit_code = 75;
  ending.message = "stopped by SIGTERM";
  CHECK_THAT(failure_text(invented::run(2), ending, {}),
             StartsWith("stopped: stopped by SIGTERM\n"));
}

TEST_CASE("run result: names the checkpoint of a resumed run and whether it is bitwise identical") {
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

TEST_CASE("epochs before a resume count, also where their rows are lost") {
  RunRecord record;
  record.add(0, invented::epoch(4));
  CHECK(epochs_done(record) == 5);
  CHECK(epochs_done(RunRecord{}) == 0);
  CHECK(result_document(record, invented::ending())["epochs"] == 5);
}

TEST_CASE("a rank that hung did not die by the signal that we sent") {
  RunResult ending = killed();
  ending.verdict = "hang";
  CHECK_THAT(failure_text(invented::run(2), ending, {}),
             StartsWith("error: rank 0 of 1 stopped answering at step"));
}

TEST_CASE("a failure before all ranks reported counts the ranks that were started") {
  RunRecord record;
  record.planned_ranks = 2;
  record.add(0, events::Hello{});
  RunResult ending = killed();
  ending.first_failure->rank = 1;
  CHECK_THAT(failure_text(record, ending, {}), StartsWith("error: rank 1 of 2 was killed by"));
  CHECK(result_document(record, ending)["world_size"] == 2);
  CHECK(evaluation_document(record, ending)["world_size"] == 2);
}

TEST_CASE("a failure that no rank caused is one sentence") {
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
  ending.first_failure = FirstFailure{.exit_code = 10, .message = "two lines:\none"};
  CHECK_THAT(failure_text(RunRecord{}, ending, {}),
             Contains("  cause    two lines:\n           one\n"));
}

TEST_CASE("result.json has every field of the contract") {
  check_golden("report/result.json",
               to_pretty(result_document(invented::run(), invented::ending())) + "\n");
  check_golden("report/result_failed.json",
               to_pretty(result_document(invented::run(2), killed())) + "\n");
}

TEST_CASE("result.json of a run that never started has the same keys") {
  const Json whole = result_document(invented::run(), invented::ending());
  const Json empty = result_document(
      RunRecord{}, RunResult{.verdict = "failed", .exit_code = 9, .message = "no data"});
  for (const auto& [key, value] : whole.items()) CHECK(empty.contains(key));
  CHECK(empty.size() == whole.size());
  CHECK(empty["best"].is_null());
  CHECK(empty["samples_per_s"] == 0.0);
  CHECK(empty["bottleneck"]["verdict"] == "balanced");
}
