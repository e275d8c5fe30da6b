#include "report/text/job_results.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <limits>

using namespace trainctl;
using report::Replay;

namespace {

Replay repeated() {
  const double inf = std::numeric_limits<double>::infinity();
  Replay replay;
  replay.dump = "runs/a/diverged/step=000017/rank_0.part";
  replay.step = {
      .global_step = 17, .batch = 16, .rows = 64, .cause = "the training loss is not finite"};
  replay.step.recorded_loss = replay.step.loss = inf;
  replay.step.first = replay.step.recorded_first = "the forward pass of layer 'fc1' (linear)";
  replay.step.bitwise = true;
  replay.step.layers = {{"fc1 (linear)", "F32", {64, 10}, 0, 3, -1, 2.5, 0.25}};
  replay.step.tensors = {{"outputs", "F32", {64, 10}, 0, 3, -1, 2.5, 0.25},
                         {"inputs", "F32", {64, 1, 28, 28}, 0, 0, 0, 1, 0.1}};
  return replay;
}

}  // namespace

TEST_CASE("replay: text shows loss, layer and whether the result is bitwise equal") {
  const std::string text = report::replay_text(repeated(), {});
  CHECK_THAT(text, StartsWith("step 17 of epoch 1, batch 16 of rank 0 (64 rows)\n"));
  CHECK_THAT(text, Contains("layer 'fc1'") && Contains("loss inf") && Contains("bitwise equal") &&
                       Contains("64x10"));
  CHECK_THAT(text, !Contains("64x1x28x28"));  // it has no NaN or Inf
}

TEST_CASE("replay: a result that is not bitwise equal lists what changed") {
  Replay replay = repeated();
  replay.step.bitwise = false;
  replay.step.why_not = "threads was 4 and is now 1";
  replay.changed = {"optimizer.lr: 0.1, was 1e+38"};
  replay.step.initialized = {"fc1.weight"};
  CHECK_THAT(report::replay_text(replay, {}),
             Contains("not bitwise equal to the recording: threads was 4 and is now 1; the config "
                      "has changed; the weights differ from the saved ones") &&
                 Contains("optimizer.lr: 0.1, was 1e+38") && Contains("fc1.weight"));
}

TEST_CASE("replay: JSON is valid with NaN and infinite values") {
  Replay replay = repeated();
  replay.step.layers[0].mean = std::nan("");
  replay.step.first.clear();
  const Json document = Json::parse(to_line(report::replay_document(replay)));
  CHECK(document["schema"] == "trainctl.replay/2");
  CHECK(document["epoch"] == 1);
  CHECK(document["loss"] == "inf");
  CHECK(document["first"].is_null());
  CHECK(document["layers"][0]["mean"] == "nan");
  CHECK(document["tensors"].size() == 2);
}
