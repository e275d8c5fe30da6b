#include "spec/experiment/task.hpp"

#include "base/error.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>

using namespace trainctl;
using spec::Task;
using spec::TaskKind;

namespace {

std::string error_of(const std::string& text) {
  try {
    spec::parse_task(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "accepted";
}

spec::Experiment experiment(const std::string& dataset) {
  config::Diagnostics diagnostics;
  const std::string text =
      "dataset: " + dataset + "\nmodel: linear\noptimizer: { type: sgd, lr: 0.1 }\n";
  return spec::load_experiment_text("test.yaml", text, {}, diagnostics).experiment;
}

}  // namespace

TEST_CASE("task: survives a round trip with any characters in its paths") {
  const spec::ModelInput rows{{spec::Inputs::numbers, spec::Targets::numbers}, {5, 2}, 3};
  const spec::ModelInput texts{{spec::Inputs::tokens, spec::Targets::classes, 256}, {8}, 3};
  for (const Task& task :
       {Task{TaskKind::evaluate, "test", "runs/a \"b\"\n/best.safetensors"},
        Task{TaskKind::predict, "train", "x.pth"},
        Task{TaskKind::predict, "val", "x.pth", "new \"pictures\"/"},
        Task{.kind = TaskKind::predict,
        .learned = spec::LearnedTargets{spec::Targets::numbers, 3, false}},
        Task{.kind = TaskKind::replay, .replay = "runs/a/diverged/step=000003/rank_0.part"},
        Task{.learned = spec::LearnedTargets{spec::Targets::classes, 1000, true}},
        Task{.resume = "/runs/a \"b\"/checkpoints/epoch=0003-step=000938"},
        Task{.resume = "/runs/a/checkpoints/epoch=0003-step=000938", .accepts_data_change = true},
        Task{.kind = TaskKind::evaluate, .trained_on = "00ff", .division = "ff00"},
        Task{.kind = TaskKind::check, .model_input = rows},
        Task{.kind = TaskKind::check, .model_input = texts}, Task{.until_epoch = 3}, Task{}}) {
    CHECK(spec::parse_task(spec::dump_task(task)) == task);
  }
}

TEST_CASE("read_task: a folder without a task is for training") {
  TempFolder folder;
  CHECK(spec::read_task(folder.path()) == Task{});
  const Task task{TaskKind::evaluate, "val", "best.safetensors"};
  std::ofstream(folder / spec::kTaskFile) << spec::dump_task(task);
  CHECK(spec::read_task(folder.path()) == task);
}

TEST_CASE("parse_task: the error for an invalid task has the reason") {
  const auto with = [](const std::string& kind, const std::string& split,
                       const std::string& more = "") {
    return R"({"schema":"trainctl.task/2","kind":)" + kind + R"(,"split":)" + split +
           R"(,"weights":"w")" + more + "}";
  };
  CHECK(error_of(with(R"("evaluate")", R"("val")")) == "accepted");
  CHECK_THAT(error_of(with(R"("dance")", R"("val")")), Contains("unknown kind 'dance'"));
  CHECK_THAT(error_of(with(R"("evaluate")", R"("dev")")), Contains("unknown split 'dev'"));
  CHECK_THAT(error_of(with("3", R"("val")")), Contains("'kind' must be a text"));
  CHECK_THAT(error_of(with(R"("evaluate")", R"("val")", R"(,"seed":1)")),
             Contains("unknown key 'seed'"));
  CHECK_THAT(error_of(R"({"kind":"evaluate","split":"val","weights":"w"})"), Contains("'schema'"));
  CHECK_THAT(error_of(with(R"("predict")", R"("val")", R"(,"input":3)")), Contains("'input'"));
  const auto learned = [&](const std::string& keys) {
    return error_of(with(R"("predict")", R"("val")", R"(,"learned":)" + keys));
  };
  CHECK(learned(R"({"targets":"classes","outputs":2,"labeled":true})") == "accepted");
  CHECK_THAT(learned("[]"), Contains("must be a JSON object"));
  CHECK_THAT(learned(R"({"targets":"names","outputs":2,"labeled":true})"), Contains("'names'"));
  CHECK_THAT(learned(R"({"targets":"classes","outputs":-2,"labeled":true})"),
             Contains("'outputs'"));
  CHECK_THAT(learned(R"({"targets":"classes","outputs":0,"labeled":true})"),
             Contains("must be from 1 to 2147483647, got 0"));
  CHECK_THAT(learned(R"({"targets":"classes","outputs":2})"), Contains("'labeled'"));
  CHECK_THAT(learned(R"({"targets":"classes","outputs":2,"labeled":true,"x":1})"),
             Contains("unknown key 'x'"));
  const auto input = [&](const std::string& keys) {
    return error_of(with(R"("check")", R"("val")", R"(,"model_input":)" + keys));
  };
  CHECK(input(R"({"inputs":"images","targets":"classes","shape":[3,8,8],"outputs":2})") ==
        "accepted");
  CHECK_THAT(input(R"({"inputs":"sounds","targets":"classes","shape":[8],"outputs":2})"),
             Contains("unknown inputs 'sounds'"));
  CHECK_THAT(input(R"({"inputs":"images","targets":"classes","shape":[3,0],"outputs":2})"),
             Contains("'shape' must be from 1"));
  CHECK_THAT(input(R"({"inputs":"images","targets":"classes","shape":[],"outputs":2})"),
             Contains("'shape'"));
  CHECK_THAT(input(R"({"inputs":"images","targets":"classes","shape":[1]})"),
             Contains("'outputs'"));
  for (const char* text : {"", "[]", "{", "null", "\xff\xfe", R"({"kind":"evaluate"} {})"})
    CHECK(error_of(text) != "accepted");
}

TEST_CASE("evaluated_split: train uses the transforms of val") {
  const auto both = experiment(
      "{ train: { type: synthetic_digits, transforms: [random_horizontal_flip] }, "
      "val: { type: synthetic_digits, transforms: [{type: center_crop, size: 20}] } }");
  const spec::DataSplit train = spec::evaluated_split(both, "train");
  REQUIRE(train.transforms.size() == 1);
  CHECK(train.transforms[0].type == "center_crop");
  CHECK(spec::evaluated_split(both, "val").transforms[0].type == "center_crop");
  const auto alone =
      experiment("{ train: { type: synthetic_digits, transforms: [random_horizontal_flip] } }");
  CHECK(spec::evaluated_split(alone, "train").transforms[0].type == "random_horizontal_flip");
  CHECK(spec::evaluating_transforms(both)[0].type == "center_crop");
  CHECK(spec::evaluating_transforms(alone)[0].type == "random_horizontal_flip");
  CHECK_THROWS_WITH(spec::evaluated_split(alone, "test"), Contains("has no dataset.test"));
  CHECK_THROWS_WITH(spec::evaluated_split(alone, "val"), Contains("has no dataset.val"));
}

TEST_CASE("part_file: ranks have different files") {
  CHECK(spec::part_file("run", "logits", 0) == "run/parts/rank_0.logits");
  CHECK(spec::part_file("run", "logits", 0) != spec::part_file("run", "logits", 1));
  CHECK(spec::part_file("run", "logits", 0) != spec::part_file("run", "names", 0));
}
