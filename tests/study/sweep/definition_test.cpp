#include "study/sweep/planned_sweep.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::study;

namespace {

spec::Loaded loaded_with(const std::vector<std::string>& overrides) {
  config::Diagnostics diagnostics;
  return spec::load_experiment_text("sweep.yaml",
                                    "dataset: {train: {type: synthetic_digits}}\nmodel: "
                                    "linear\noptimizer: {type: sgd, lr: 0.1}\n",
                                    overrides, diagnostics);
}

Json parsed(const char* text) { return Json::parse(text); }

}  // namespace

TEST_CASE("config_hash: depends on the values, not on how they are written") {
  const std::string hash = config_hash(loaded_with({}));
  CHECK(hash.size() == 16);
  CHECK(config_hash(loaded_with({"optimizer.lr=0.1"})) == hash);
  CHECK(config_hash(loaded_with({"seed=9"})) == hash);
  CHECK(config_hash(loaded_with({"optimizer.lr=0.2"})) != hash);
  CHECK(config_hash(loaded_with({"trainer.max_epochs=3"})) != hash);
}

TEST_CASE("fixed_values: leaves out the varied keys") {
  const Json values = fixed_values(loaded_with({}), {"optimizer.lr", "+trainer"});
  CHECK_FALSE(values.contains("optimizer.lr"));
  CHECK_FALSE(values.contains("seed"));
  CHECK(values["optimizer.type"] == "sgd");
  for (const auto& [path, value] : values.items()) CHECK_FALSE(path.starts_with("trainer."));
}

TEST_CASE("definition_difference: contains the old and new values") {
  CHECK(definition_difference(parsed(R"({"samples": 10, "base": {"a.b": "1"}})"),
                              parsed(R"({"samples": 20, "base": {"a.b": "1"}})")) ==
        "samples: 10 -> 20");
  CHECK(definition_difference(parsed(R"({"keys": {"lr": "0.1,0.2"}})"),
                              parsed(R"({"keys": {"momentum": "0,0.9"}})")) ==
        "keys.lr: 0.1,0.2 -> unset; keys.momentum: unset -> 0,0.9");
  CHECK(definition_difference(parsed("{}"), parsed("{}")).empty());
}

TEST_CASE("definition_difference: lists six differences and counts the others") {
  Json many = Json::object();
  for (int i = 0; i < 9; ++i) many["key" + std::to_string(i)] = i;
  CHECK_THAT(definition_difference(Json::object(), many), EndsWith("key5: unset -> 5 and 3 more"));
}
