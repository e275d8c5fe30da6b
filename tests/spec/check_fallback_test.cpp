#include "config/schema/schema.hpp"
#include "experiment_yaml.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

namespace spec = trainctl::spec;
using Catch::Matchers::Equals;

TEST_CASE("on_divergence: every attempt is checked with the file, and errors name its number",
          "[spec]") {
  const std::string key = "trainer.on_divergence=";
  CHECK_THAT(problems_of({key + "[optimizer.lr=0.1, [optimizer.lr=0.01, "
                                "trainer.gradient_clip_val=1.0]]"}),
             Equals(""));
  const std::string wrong =
      problems_of({key + "[optimizer.lr=0.1, [optimizer.rate=0.01, trainer.max_epochs=soon], []]"});
  CHECK_THAT(wrong, Contains("entry 2 of 'on_divergence'") && Contains("unknown key 'rate'") &&
                        Contains("max_epochs") &&
                        Contains("entry 3 of 'on_divergence': the entry changes no key") &&
                        !Contains("entry 1"));
  CHECK_THAT(problems_of({key + "[optimizer.lr]"}), Contains("an override must have a value"));
  CHECK_THAT(problems_of({key + "{optimizer.lr: 0.1}"}), Contains("on_divergence"));
  CHECK_THAT(problems_of({key + "[[[optimizer.lr=0.1]]]"}), Contains("on_divergence"));
}

TEST_CASE("on_divergence: an attempt may be a map of keys or sections", "[spec]") {
  const spec::Loaded loaded = load_valid(
      {"trainer.on_divergence=[{optimizer.lr: 0.1}, {optimizer: {lr: 0.01, betas: [0.8, 0.99]}, "
       "trainer: {max_epochs: 2}}, [seed=3, {metrics: [accuracy, {type: top_k_accuracy, k: "
       "2}]}]]"});
  const auto& fallbacks = loaded.experiment.trainer.on_divergence;
  REQUIRE(fallbacks.size() == 3);
  CHECK(fallbacks[0].values == std::vector<std::string>{"optimizer.lr=0.1"});
  CHECK(fallbacks[1].values == std::vector<std::string>{"optimizer.lr=0.01",
                                                        "optimizer.betas=[0.8, 0.99]",
                                                        "trainer.max_epochs=2"});
  trainctl::config::Diagnostics problems;
  const spec::Loaded second = spec::overridden(loaded, fallbacks[1].values, problems);
  CHECK(second.experiment.trainer.max_epochs == 2);
  const spec::Loaded third = spec::overridden(loaded, fallbacks[2].values, problems);
  CHECK(third.experiment.seed == 3);
  CHECK(third.experiment.metrics.size() == 2);
  CHECK(problems.error_count() == 0);
  const std::string resolved = spec::dump_resolved(loaded);
  const spec::Loaded again = spec::load_experiment_text("resolved.yaml", resolved, {}, problems);
  CHECK(again.experiment.trainer.on_divergence == fallbacks);
}

TEST_CASE("on_divergence: an entry's type shows that it may be a map", "[spec]") {
  const auto& trainer = *spec::experiment_schema().find("trainer")->type.object;
  CHECK_THAT(trainctl::config::type_text(trainer.find("on_divergence")->type, {}),
             Equals("list of text or map or list of texts and maps"));
}

TEST_CASE("on_divergence: references in a map are resolved once, and escaped ones stay literal",
          "[spec]") {
  trainctl::config::Diagnostics problems;
  const spec::Loaded loaded =
      load_valid({"trainer.on_divergence=[{name: '$${a} ${trainer.max_epochs}', seed: 7}, {name: "
                  "\"it's \\\"$${b}\\\"\"}]"});
  const auto& fallbacks = loaded.experiment.trainer.on_divergence;
  REQUIRE(fallbacks.size() == 2);
  const auto name_after = [&](const spec::Loaded& base, std::size_t attempt) {
    return spec::overridden(base, base.experiment.trainer.on_divergence.at(attempt).values,
                            problems)
        .experiment.name;
  };
  CHECK(name_after(loaded, 0) == "${a} 5");
  CHECK(name_after(loaded, 1) == "it's \"${b}\"");
  const spec::Loaded again =
      spec::load_experiment_text("resolved.yaml", spec::dump_resolved(loaded), {}, problems);
  CHECK(again.experiment.trainer.on_divergence == fallbacks);
  CHECK(name_after(again, 0) == "${a} 5");
  CHECK(problems.error_count() == 0);
}

TEST_CASE("on_divergence: an error in a map is reported at its line", "[spec]") {
  const auto problems_with = [](const std::string& entry) {
    trainctl::config::Diagnostics problems;
    const std::string text =
        "dataset: { train: { type: synthetic_digits } }\nmodel: linear\n"
        "optimizer: { type: sgd, lr: 0.1 }\ntrainer:\n  on_divergence:\n" +
        entry;
    try {
      spec::load_experiment_text("a.yaml", text, {}, problems);
    } catch (const trainctl::Error&) {
    }
    return problems.render();
  };
  CHECK_THAT(problems_with("    - optimizer:\n        lr: 0.01\n"), !Contains("error"));
  CHECK_THAT(problems_with("    - optimizer:\n        lr: 0.01\n        rate: 1\n"),
             Contains("yaml:8:9: error: entry 1 of 'on_divergence': unknown key 'rate'"));
  CHECK_THAT(problems_with("    - optimizer.lr: 0.01\n    - optimizr:\n        lr: 0.01\n"),
             Contains("yaml:7:7: error: entry 2 of 'on_divergence': unknown key 'optimizr'"));
  CHECK_THAT(problems_with("    - trainer:\n        max_epochs: soon\n"),
             Contains("yaml:7:21: error: entry 1"));
  CHECK_THAT(problems_with("    - {}\n"),
             Contains("yaml:6:7: error: entry 1") && Contains("the entry changes no key"));
  CHECK_THAT(problems_with("    - optimizer: {}\n"), Contains("the entry changes no key"));
  CHECK_THAT(problems_with("    - loader: { batch_size: auto }\n"), Contains("chosen once"));
  CHECK_THAT(problems_with("    - plugins: [mine.so]\n"), Contains("loaded once"));
  CHECK_THAT(problems_with("    - 'my key': 1\n"), Contains("entry 1"));
}

TEST_CASE("on_divergence: an override with + also changes a key that is already set", "[spec]") {
  const spec::Loaded loaded = load_valid({"trainer.gradient_clip_val=2.0"});
  trainctl::config::Diagnostics problems;
  const spec::Loaded changed =
      spec::overridden(loaded, {"+trainer.gradient_clip_val=1.0"}, problems);
  CHECK(problems.error_count() == 0);
  CHECK(changed.experiment.trainer.gradient_clip_val == 1.0);
}

TEST_CASE("on_divergence: an attempt cannot change plugins or set the batch size to auto",
          "[spec]") {
  const std::string key = "trainer.on_divergence=";
  CHECK_THAT(problems_of({key + "[loader.batch_size=auto]"}),
             Contains("entry 1 of 'on_divergence'") && Contains("chosen once"));
  CHECK_THAT(problems_of({key + "[++plugins=mine.so]"}),
             Contains("entry 1 of 'on_divergence'") && Contains("loaded once"));
  CHECK_THAT(problems_of({key + "[loader.batch_size=64]"}), Equals(""));
}

TEST_CASE("on_divergence: an attempt has the values of the file except for its overrides",
          "[spec]") {
  const spec::Loaded loaded = load_valid({"trainer.on_divergence=[trainer.max_epochs=2]"});
  trainctl::config::Diagnostics problems;
  const auto& words = loaded.experiment.trainer.on_divergence.at(0).values;
  CHECK(spec::overridden(loaded, words, problems).experiment.trainer.max_epochs == 2);
  CHECK(loaded.experiment.trainer.max_epochs == 5);
  CHECK(problems.error_count() == 0);
}
