#include "config/schema/reader.hpp"
#include "spec/load.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/ops/ones.h>

#include <set>

using namespace trainctl;

namespace {

/// Returns the stage as read from a file: defaults, and an example for each required option.
config::Stage stage_with_defaults(const std::string& kind, const std::string& name) {
  const config::StageType* type = spec::builtin_vocabulary().find(kind, name);
  REQUIRE(type != nullptr);
  std::string options;
  for (const config::Field& field : type->schema.fields) {
    if (field.required) options += (options.empty() ? "" : ", ") + field.key + ": " + field.example;
  }
  return stages_test::stage(kind, name, "{" + options + "}");
}

const at::Tensor& weight() {
  static const at::Tensor tensor = at::ones({2, 2}).requires_grad_(true);
  return tensor;
}

void build_model(const config::Stage& stage, const stage::Catalog& all) {
  if (stage.type == "torchscript") return;  // needs a file: see torchscript_test.cpp
  stage::ModelContext context{{3, 32, 32}, 10};
  const bool classifies = stage.type == "lstm_classifier" || stage.type == "bert";
  if (stage.type == "gpt" || stage.type == "lstm_lm")
    context = {{8}, 10, {spec::Inputs::tokens, spec::Targets::tokens}};
  if (classifies) context = {{8}, 10, {spec::Inputs::tokens, spec::Targets::classes, 20}};
  if (stage.type == "unet") context.kind.targets = spec::Targets::pixels;
  if (stage.type == "autoencoder")
    context = {{3, 32, 32}, 3 * 32 * 32, {spec::Inputs::images, spec::Targets::numbers}};
  if (stage.type == "dcgan_generator") {
    context = {{8}, 3 * 32 * 32, {spec::Inputs::numbers, spec::Targets::numbers}, {3, 32, 32}};
  }
  CHECK(all.models.build(stage, context) != nullptr);
}

void build(const config::Stage& stage, const stage::Catalog& all) {
  const std::set<std::string> kinds{"model",     "layer",   "loss",   "optimizer",
                                    "scheduler", "stopper", "metric", "task"};
  REQUIRE(kinds.contains(stage.kind));
  if (stage.kind == "model") build_model(stage, all);
  if (stage.kind == "layer") {
    const bool tokens = stage.type == "embedding";
    const spec::layer::Shape shape = tokens ? spec::layer::Shape{8} : spec::layer::Shape{3, 8, 8};
    CHECK(all.layers.build(stage, {{shape, tokens, 10}}) != nullptr);
  }
  if (stage.kind == "loss") CHECK(all.losses.build(stage, {10}) != nullptr);
  if (stage.kind == "optimizer")
    CHECK(all.optimizers.build(stage, {{{"weight", weight()}}}) != nullptr);
  if (stage.kind == "scheduler") CHECK(all.schedulers.build(stage, {0.1, 10, 100}) != nullptr);
  if (stage.kind == "stopper") CHECK(all.stoppers.build(stage, {}) != nullptr);
  if (stage.kind == "metric") CHECK(all.metrics.build(stage, {10}) != nullptr);
  if (stage.kind == "task") {
    stage::TaskContext context;
    context.build_frozen = [](const auto&, const auto&) { return nullptr; };
    context.build_trained = [&](const config::Stage& model, const auto&, const auto&) {
      return stage::TrainedModel{all.models.build(model, {{3, 32, 32}, 1}), nullptr};
    };
    CHECK(all.tasks.build(stage, context) != nullptr);
  }
}

#define STAGE(kind, name, ...) {#kind, #name},
const std::vector<std::pair<std::string, std::string>> kListed{
#include "stages/stages.def"
};
#undef STAGE

}  // namespace

TEST_CASE("catalog: every stage of stages.def is built from its default options") {
  const stage::Catalog all = stages::builtin_catalog();
  for (const auto& [kind, name] : kListed) {
    INFO(kind << "/" << name);
    build(stage_with_defaults(kind, name), all);
  }
}

TEST_CASE("catalog: the config schema and the engine have the same stages") {
  const stage::Catalog all = stages::builtin_catalog();
  const config::Vocabulary& front = spec::builtin_vocabulary();
  CHECK(all.models.names() == front.names("model"));
  CHECK(all.layers.names() == front.names("layer"));
  CHECK(all.losses.names() == front.names("loss"));
  CHECK(all.optimizers.names() == front.names("optimizer"));
  CHECK(all.schedulers.names() == front.names("scheduler"));
  CHECK(all.stoppers.names() == front.names("stopper"));
  CHECK(all.metrics.names() == front.names("metric"));
  CHECK(all.tasks.names() == front.names("task"));
}

TEST_CASE("catalog: a stage missing from stages.def is an error that lists those available") {
  config::Stage stage = stage_with_defaults("optimizer", "adam");
  stage.type = "sophia";
  CHECK_THROWS_WITH(
      stages::builtin_catalog().optimizers.build(stage, {{{"weight", weight()}}}),
      Contains("optimizer 'sophia' is not part of this build, which has: adagrad, adam,"));
}
