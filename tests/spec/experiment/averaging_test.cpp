#include "base/json.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment_yaml.hpp"
#include "support/catch.hpp"
#include "support/golden_folder.hpp"

#include <cmath>
#include <fstream>

using namespace trainctl;

namespace {

/// Returns the problems of the experiment with these overrides on 6,400 samples: 100 steps per
/// epoch, 500 per run.
std::string problems_of_average(const std::vector<std::string>& overrides) {
  const spec::Loaded loaded = load_valid(overrides);
  config::Diagnostics diagnostics;
  spec::check_against_data(loaded, spec::SplitFacts{.samples = 6400, .classes = 10}, diagnostics);
  return diagnostics.render();
}

}  // namespace

TEST_CASE("EMA: averages with a decay warm-up match timm's", "[spec]") {
  std::ifstream file(golden_folder() / "torch/averaging.json");
  const Json golden = Json::parse(file);
  for (const Json& run : golden["cases"]) {
    INFO(run["options"]);
    std::string options = "decay: " + run["options"]["decay"].dump();
    for (const char* key : {"use_warmup", "warmup_gamma", "warmup_power", "min_decay"}) {
      if (run["options"].contains(key))
        options += std::string(", ") + key + ": " + run["options"][key].dump();
    }
    const spec::Loaded loaded = load_valid({"trainer.ema={" + options + "}"});
    const spec::ExponentialDecay decay = loaded.experiment.trainer.ema->exponential_decay();
    double average = 0;
    for (std::size_t i = 0; i < golden["weights"].size(); ++i) {
      const double kept = spec::decay_of_update(decay, static_cast<std::int64_t>(i) + 1);
      average = kept * average + (1 - kept) * golden["weights"][i].get<double>();
      CHECK(std::abs(average - run["averages"][i].get<double>()) < 1e-5);
    }
  }
}

TEST_CASE("EMA: the share of the initial weights decreases with every update", "[spec]") {
  CHECK(spec::share_of_first({0.9}, 1) == 1);
  CHECK(spec::share_of_first({0.9}, 3) == Approx(0.81));
  const spec::ExponentialDecay warm{0.9999, spec::DecayWarmup{}};
  CHECK(spec::share_of_first(warm, 1) == 1);
  CHECK(spec::share_of_first(warm, 2) == Approx(1 - std::pow(2, -2.0 / 3)));
  CHECK(spec::share_of_first(warm, 1'000'000'000) < 1e-5);
}

TEST_CASE("EMA: a decay too close to 1 for the length of the run causes a warning", "[spec]") {
  CHECK_THAT(
      problems_of_average({"trainer.ema={decay: 0.9999}"}),
      Contains("warning") &&
          Contains("the weights of the first update would still make up 95 % of the average") &&
          Contains("a decay of 0.9999 averages over about 10,000 updates, but the run has 500") &&
          Contains("write 'use_warmup: true', a decay of at most 0.994"));
  CHECK_THAT(problems_of_average({"trainer.ema={decay: 0.99, every_n_steps: 10}"}),
             Contains("the run has 50"));
  CHECK_THAT(problems_of_average({"trainer.ema={decay: 0.99, start_epoch: 4}"}),
             Contains("the run has 100"));
  CHECK_THAT(
      problems_of_average({"trainer.ema={decay: 0.9999, use_warmup: true, min_decay: 0.9999}"}),
      Contains("write a decay of at most 0.994"));
  for (const char* valid : {"trainer.ema={decay: 0.99}", "trainer.ema={decay: 0.9}",
                            "trainer.ema={decay: 0.9999, use_warmup: true}"})
    CHECK(problems_of_average({valid}).empty());
}

TEST_CASE("weight averaging: an average that is never updated causes a warning", "[spec]") {
  CHECK_THAT(problems_of_average({"trainer.ema={every_n_steps: 501}"}),
             Contains("the average is never updated: the first update is due after 501 steps, but "
                      "the run ends after 500"));
  CHECK_THAT(problems_of_average({"trainer.swa={every_n_steps: 501}"}),
             Contains("the average is never updated"));
  CHECK(problems_of_average({"trainer.swa={start_epoch: 4}"}).empty());
}
