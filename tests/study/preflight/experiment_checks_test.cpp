#include "study/preflight/experiment_checks.hpp"

#include "base/error.hpp"
#include "study/preflight/run_plan.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::study;

namespace {

/// Returns every problem of a small experiment with these overrides as text.
std::string problems_for(Purpose purpose, const std::vector<std::string>& overrides,
                         TrainingSamples& samples) {
  const TempFolder folder;
  put_text(folder / "experiment.yaml",
           "dataset: { train: { type: synthetic_digits } }\nmodel: linear\n"
           "optimizer: { type: sgd, lr: 0.1 }\ntrainer: { accelerator: cpu }\n");
  config::Diagnostics diagnostics;
  try {
    spec::load_experiment(folder / "experiment.yaml", overrides, diagnostics,
                          checks_for(purpose, samples));
  } catch (const Error&) {
    return diagnostics.render();
  }
  return {};
}

}  // namespace

TEST_CASE("checks_for: training finds the problems of data, weights and loggers at once") {
  TrainingSamples samples;
  const std::vector<std::string> wrong{"++weights.path=/absent/w.pth", "loader.batch_size=100000",
                                       "++loader.drop_last=true"};
  const std::string problems = problems_for(Purpose::training, wrong, samples);
  CHECK_THAT(problems, Contains("the file /absent/w.pth does not exist"));
  CHECK_THAT(problems, Contains("batch_size"));
  CHECK(problems_for(Purpose::reading, wrong, samples).empty());
}

TEST_CASE("checks_for: only training needs the weights of a teacher") {
  TrainingSamples samples;
  const std::vector<std::string> absent{
      "+task={type: distillation, teacher: linear, weights: /absent/t.safetensors}"};
  CHECK_THAT(problems_for(Purpose::training, absent, samples),
             Contains("the file /absent/t.safetensors does not exist") &&
                 Contains("train the teacher first"));
  CHECK(problems_for(Purpose::evaluating, absent, samples).empty());
}

TEST_CASE("checks_for: the sample properties come from the headers of dataset.train") {
  TrainingSamples samples;
  CHECK(problems_for(Purpose::training, {}, samples).empty());
  REQUIRE(samples.model_input.has_value());
  CHECK(samples.model_input->outputs == 10);
}

TEST_CASE("check_options: a link needs --devices, bandwidth and latency") {
  CHECK_THROWS_WITH(check_options(ScalingOptions{.bandwidth = "25GB/s", .latency = "20us"}),
                    Contains("add --devices"));
  CHECK_THROWS_WITH(check_options(ScalingOptions{.devices = 2, .bandwidth = "25GB/s"}),
                    Contains("given together"));
  CHECK_NOTHROW(
      check_options(ScalingOptions{.devices = 2, .bandwidth = "25GB/s", .latency = "20us"}));
}
