#include "config/schema/dump.hpp"
#include "config/schema/explain.hpp"
#include "config/support.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

using namespace trainctl;

namespace {

std::string explained(const std::string& key) {
  return config::to_text(config::explain(key, sample::schema(), sample::vocabulary()));
}

}  // namespace

TEST_CASE("json_schema: the schema of a file equals the golden file") {
  check_golden("config/schema.json",
               to_pretty(config::json_schema(sample::schema(), sample::vocabulary())) + "\n");
}

TEST_CASE("json_schema: the schema of one stage contains its keys, defaults and bounds") {
  const Json schema =
      config::json_schema(*sample::vocabulary().find("optimizer", "adam"), sample::vocabulary());
  CHECK(schema["properties"]["type"]["const"] == "adam");
  CHECK(schema["additionalProperties"] == false);
  CHECK(schema["properties"]["lr"]["default"] == 0.001);
  CHECK(schema["properties"]["lr"]["anyOf"][0]["exclusiveMinimum"] == 0);
  CHECK(schema["properties"]["betas"]["anyOf"][0]["minItems"] == 2);
}

TEST_CASE("to_json: values have their types") {
  const Json json = config::to_json(
      sample::tree("{a: 1, b: 0.5, c: true, d: x, e: '1', f: [~], g: .inf, h: 1e3}"));
  CHECK(to_line(json) ==
        R"({"a":1,"b":0.5,"c":true,"d":"x","e":"1","f":[null],"g":".inf","h":1000.0})");
}

TEST_CASE("explain: the texts of sections, stages, options and lists equal the golden file") {
  std::string text;
  for (const char* key : {"trainer",
                          "trainer.max_epochs",
                          "trainer.precision",
                          "trainer.gradient_clip_val",
                          "loader.num_workers",
                          "optimizer",
                          "optimizer.adam",
                          "optimizer.adam.lr",
                          "optimizer.lr",
                          "optimizer.adam.betas",
                          "scheduler.step_lr.step_size",
                          "transform.normalize.mean",
                          "dataset.train",
                          "dataset.train.transforms",
                          "dataset.train.transforms.0.normalize.std",
                          "dataset.train.digits.samples",
                          "dataset.mnist.root",
                          "metrics.top_k_accuracy.k",
                          "class_weights.cat",
                          "phases.0.epochs",
                          "loggers",
                          "metric",
                          "metric.accuracy",
                          "scheduler.step_lr",
                          "optimizer.type",
                          "dataset.train.type",
                          "extends"}) {
    text += explained(key) + "\n";
  }
  check_golden("config/explain.txt", text);
}

TEST_CASE("explain: the error for an unknown key suggests a key") {
  CHECK_THROWS_WITH(explained("lr"), Contains("unknown key 'lr': did you mean optimizer.lr?"));
  CHECK_THROWS_WITH(explained("trainer.max_epoch"), Contains("did you mean 'trainer.max_epochs'?"));
  CHECK_THROWS_WITH(explained("epochs"), Contains("did you mean phases.0.epochs?") ||
                                             Contains("trainctl calls it 'trainer.max_epochs'"));
  CHECK_THROWS_WITH(explained("optimizer.adam.momentum"),
                    Contains("did you mean optimizer.momentum?"));
  CHECK_THROWS_WITH(explained("qqqqqqqqqq"), Contains("the sections are: name, seed"));
}

TEST_CASE("explain: the JSON document has the default and the bounds") {
  const Json json =
      config::to_json(config::explain("optimizer.adam.lr", sample::schema(), sample::vocabulary()));
  CHECK(json["schema"] == "trainctl.explain/2");
  CHECK(json["default"] == "0.001");
  CHECK(json["bounds"] == "above 0");
}

TEST_CASE("known_keys: every key can be explained and has its possible values") {
  const auto keys = config::known_keys(sample::schema(), sample::vocabulary());
  CHECK(keys.size() > 40);
  for (const config::KnownKey& known : keys) {
    INFO(known.key);
    CHECK_FALSE(known.help.empty());
    CHECK_NOTHROW(explained(known.key));
    if (known.key == "trainer.precision") CHECK(known.values.size() == 3);
    if (known.key == "optimizer.type")
      CHECK(known.values == std::vector<std::string>{"adam", "sgd"});
    if (known.key == "loader.pin_memory")
      CHECK(known.values == std::vector<std::string>{"true", "false", "auto"});
  }
}
