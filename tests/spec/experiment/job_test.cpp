#include "spec/experiment/job.hpp"

#include "base/error.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>

using namespace trainctl;
using spec::Job;
using spec::JobKind;

namespace {

std::string error_of(const std::string& text) {
  try {
    spec::parse_job(text);
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

TEST_CASE("job: survives a round trip with any characters in its paths") {
  const spec::ModelInput rows{{spec::Inputs::numbers, spec::Targets::numbers}, {5, 2}, 3};
  const spec::ModelInput texts{{spec::Inputs::tokens, spec::Targets::classes, 256, 0}, {8}, 3};
  for (const Job& job :
       {Job{JobKind::evaluate, "test", "runs/a \"b\"\n/best.safetensors"},
        Job{JobKind::predict, "train", "x.pth"},
        Job{JobKind::predict, "val", "x.pth", "new \"pictures\"/"},
        Job{.kind = JobKind::predict,
        .learned = spec::LearnedTargets{spec::Targets::numbers, 3, false}},
        Job{.kind = JobKind::replay, .replay = "runs/a/diverged/step=000003/rank_0.part"},
        Job{.learned = spec::LearnedTargets{spec::Targets::classes, 1000, true}},
        Job{.resume = "/runs/a \"b\"/checkpoints/epoch=0003-step=000938"},
        Job{.resume = "/runs/a/checkpoints/epoch=0003-step=000938", .accepts_data_change = true},
        Job{.kind = JobKind::evaluate, .trained_on = "00ff", .division = "ff00"},
        Job{.kind = JobKind::check, .model_input = rows},
        Job{.kind = JobKind::check, .model_input = texts}, Job{.until_epoch = 3},
        Job{.kind = JobKind::script, .quantize = spec::Quantization{7, spec::Observer::min_max}},
        Job{}}) {
    CHECK(spec::parse_job(spec::dump_job(job)) == job);
  }
}

TEST_CASE("read_job: a folder without a job is for training") {
  TempFolder folder;
  CHECK(spec::read_job(folder.path()) == Job{});
  const Job job{JobKind::evaluate, "val", "best.safetensors"};
  std::ofstream(folder / spec::kJobFile) << spec::dump_job(job);
  CHECK(spec::read_job(folder.path()) == job);
}

TEST_CASE("parse_job: the error for an invalid job has the reason") {
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
