#include "config/support.hpp"
#include "config/tree/load.hpp"
#include "config/tree/yaml.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

using namespace trainctl;
namespace fs = std::filesystem;

TEST_CASE("Reader: an empty experiment has all defaults") {
  const sample::Experiment read = sample::experiment("optimizer: adam");
  CHECK(read.name == "experiment");
  CHECK(read.loader.batch_size == 64);
  CHECK(read.loader.num_workers.is_auto());
  CHECK_FALSE(read.trainer.gradient_clip_val.has_value());
  CHECK(read.optimizer.as<sample::Adam>().lr == 1e-3);
  CHECK(read.scheduler.type == "constant_lr");
  CHECK_FALSE(read.model);
}

TEST_CASE("Reader: every type of value is read") {
  const sample::Experiment read = sample::experiment(R"(
name: "042"
seed: 0x1F
loader: {batch_size: 0o17, num_workers: 3, pin_memory: false}
model: {type: mlp, hidden: [+256, 10], activation: tanh, dropout: .5}
optimizer: {type: adam, lr: 3e-4, betas: [0.5, 0.25], amsgrad: true}
metrics: [accuracy, {type: top_k_accuracy, k: 3}]
trainer: {precision: bf16-mixed, gradient_clip_val: 1, divergence_limit: .inf, verbosity: 255}
phases: [{epochs: 2}, {lr_scale: 0.1}]
class_weights: {cat: 1.5, dog: 2}
loggers: []
)");
  CHECK(read.name == "042");
  CHECK(read.seed == 31);
  CHECK(read.loader.batch_size == 15);
  CHECK(read.loader.num_workers.value == 3);
  CHECK(read.loader.pin_memory.value == false);
  CHECK(read.model.as<sample::Mlp>().hidden == std::vector<std::int64_t>{256, 10});
  CHECK(read.model.as<sample::Mlp>().activation == sample::Activation::tanh);
  CHECK(read.model.as<sample::Mlp>().dropout == 0.5);
  CHECK(read.optimizer.as<sample::Adam>().betas == std::array{0.5, 0.25});
  CHECK(read.optimizer.as<sample::Adam>().amsgrad);
  REQUIRE(read.metrics.size() == 2);
  CHECK(read.metrics[1].as<sample::TopK>().k == 3);
  CHECK(read.trainer.precision == sample::Precision::mixed_bf16);
  CHECK(read.trainer.gradient_clip_val == 1.0);
  CHECK(std::isinf(read.trainer.divergence_limit));
  CHECK(read.trainer.verbosity == 255);
  REQUIRE(read.phases.size() == 2);
  CHECK(read.phases[0].epochs == 2);
  CHECK(read.phases[1].lr_scale == 0.1);
  CHECK(read.class_weights.at("dog") == 2);
  CHECK(read.loggers.empty());
}

TEST_CASE("Reader: null is equivalent to a missing key") {
  const sample::Experiment read = sample::experiment(
      "optimizer: adam\nscheduler: ~\ntrainer: {max_epochs: null, gradient_clip_val: ~}");
  CHECK(read.scheduler.type == "constant_lr");
  CHECK(read.trainer.max_epochs == 10);
  CHECK_FALSE(read.trainer.gradient_clip_val.has_value());
  CHECK_THAT(sample::problems("optimizer: ~"), Contains("needs 'optimizer'"));
}

TEST_CASE("Reader: a stage and the keys next to it share one map") {
  const sample::Experiment read = sample::experiment(R"(
optimizer: adam
dataset:
  train: {type: digits, samples: 100, transforms: [random_crop, {type: normalize, mean: [0.1], std: [0.3]}]}
  val: digits
)");
  CHECK(read.dataset->train.dataset.as<sample::Digits>().samples == 100);
  REQUIRE(read.dataset->train.transforms.size() == 2);
  CHECK(read.dataset->train.transforms[1].as<sample::Normalize>().mean == std::vector{0.1});
  REQUIRE(read.dataset->val.has_value());
  CHECK(read.dataset->val->dataset.type == "digits");
  CHECK(read.dataset->val->transforms.empty());
}

TEST_CASE("Reader: a path is relative to its file, and in an override to the current folder") {
  const std::string text = "optimizer: adam\ndataset: {train: {type: mnist, root: data}}";
  config::Diagnostics diagnostics;
  const auto source = config::make_source("x/y.yaml", text, "x");
  const auto root = [&](const config::Node& tree) {
    return sample::read(tree, diagnostics).dataset->train.dataset.as<sample::Mnist>().root;
  };
  CHECK(root(config::parse_yaml(source, text, diagnostics)) == fs::current_path() / "x/data");
  CHECK(root(sample::tree(text, {"dataset.train.root=../other"})) ==
        fs::current_path().parent_path() / "other");
  CHECK(root(sample::tree(text, {"dataset.train.root=/abs/./z"})) == "/abs/z");
  CHECK(diagnostics.error_count() == 0);
}

TEST_CASE("Reader: a secret is an error for a field that does not accept secrets") {
  const std::string problems =
      sample::problems("optimizer: adam\ntoken: \"Bearer ${secret:TOKEN}\"");
  CHECK_THAT(
      problems,
      Contains(
          "2:8: error: 'token' must not be a secret: its value is written into the run folder"));
  CHECK_THAT(sample::problems("optimizer: {type: adam, lr: \"${secret:LR}\"}"),
             Contains("'lr' must not be a secret"));
}

TEST_CASE("Reader: all problems of a file are found in one pass") {
  const std::string text = sample::problems(
      "optimizer: {type: adam, lr: x, eps: y}\nloader: {batch_size: z, w: 1}\ntrainer: 3");
  CHECK_THAT(text, EndsWith("5 errors in test.yaml\n"));
}

TEST_CASE("Vocabulary: kinds and stages are listed, and other names are not found") {
  const config::Vocabulary& all = sample::vocabulary();
  CHECK(all.kinds() == std::vector<std::string>{"dataset", "metric", "model", "optimizer",
                                                "scheduler", "transform"});
  CHECK(all.names("optimizer") == std::vector<std::string>{"adam", "sgd"});
  CHECK(all.names("nothing").empty());
  CHECK(all.find("optimizer", "mlp") == nullptr);
}

TEST_CASE("Stage: reading its options as another type is an assertion failure") {
  const sample::Experiment read = sample::experiment("optimizer: adam");
  CHECK_THROWS_WITH(read.optimizer.as<sample::Sgd>(), Contains("assertion"));
}

TEST_CASE("number_text: a number has the shortest text that reads back") {
  CHECK(config::number_text(0.1) == "0.1");
  CHECK(config::number_text(1e-8) == "1e-08");
  CHECK(config::number_text(1e6) == "1000000");
  CHECK(config::number_text(1e-4) == "0.0001");
  CHECK(config::number_text(1e20) == "1e+20");
  CHECK(config::number_text(1.0 / 3) == "0.3333333333333333");
  CHECK(config::number_text(-std::numeric_limits<double>::infinity()) == "-.inf");
  CHECK(config::number_text(std::nan("")) == ".nan");
}
