#include "spec/check_data.hpp"

#include "experiment_yaml.hpp"
#include "support/catch.hpp"

namespace {

std::string problems_with(const std::vector<std::string>& overrides, trainctl::spec::SplitFacts train) {
  trainctl::config::Diagnostics diagnostics;
  trainctl::spec::check_against_data(load_sound(overrides), train, diagnostics);
  return diagnostics.render();
}

}  // namespace

TEST_CASE("a batch over all devices is not larger than the data", "[spec]") {
  CHECK(problems_with({"loader.batch_size=100"}, {.samples = 100, .classes = 10}).empty());
  CHECK_THAT(
      problems_with({"loader.batch_size=1000"}, {.samples = 100, .classes = 10}),
      Contains("a batch of 1,000 is larger than the training data: 100 samples") && Contains("write 100 or less"));
  CHECK_THAT(problems_with({"loader.batch_size=64", "trainer.devices=2"}, {.samples = 100, .classes = 10}),
             Contains("a batch of 64 x 2 devices is larger") && Contains("write 50 or less"));
}

TEST_CASE("class weights and top-k fit the number of classes", "[spec]") {
  CHECK_THAT(problems_with({"loss={type: cross_entropy, weight: [1, 2]}"}, {.samples = 1000, .classes = 10}),
             Contains("the loss has 2 weights, but the data 10 classes"));
  CHECK_THAT(problems_with({"metrics=[{type: top_k_accuracy, k: 11}]"}, {.samples = 1000, .classes = 10}),
             Contains("k is 11, but the data has 10 classes"));
  CHECK(problems_with({"metrics=[{type: top_k_accuracy, k: 10}]"}, {.samples = 1000, .classes = 10}).empty());
}

TEST_CASE("a warm-up in steps is shorter than the run that the data makes", "[spec]") {
  const std::string warm = "scheduler={type: constant_lr, warmup: 50, interval: step}";
  CHECK_THAT(problems_with({warm}, {.samples = 640, .classes = 10}),
             Contains("the warm-up of 50 steps must be shorter than the run of 50 steps"));
  CHECK(problems_with({warm}, {.samples = 704, .classes = 10}).empty());
  CHECK_THAT(problems_with({warm, "trainer.limit_train_batches=0.5"}, {.samples = 704, .classes = 10}),
             Contains("run of 25 steps"));
}
