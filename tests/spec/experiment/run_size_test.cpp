#include "spec/experiment/run_size.hpp"

#include "support/catch.hpp"

using namespace trainctl::spec;

namespace {

Experiment experiment_of(std::optional<std::int64_t> max_epochs,
                         std::optional<std::int64_t> max_steps) {
  Experiment experiment;
  experiment.loader.batch_size = 10;
  experiment.trainer.accumulate_grad_batches = 3;
  experiment.trainer.max_epochs = max_epochs;
  experiment.trainer.max_steps = max_steps;
  return experiment;
}

}  // namespace

TEST_CASE("max_epochs is 10 where nothing else ends the run") {
  CHECK(Trainer{}.epoch_limit() == 10);
  CHECK(Trainer{.max_epochs = 3, .max_steps = 5}.epoch_limit() == 3);
  CHECK_FALSE(Trainer{.max_steps = 5}.epoch_limit().has_value());
  CHECK_FALSE(Trainer{.max_time = "1h"}.epoch_limit().has_value());
}

TEST_CASE("the shorter of max_epochs and max_steps is the length of a run") {
  const RunLength by_epochs =
      schedule_length(experiment_of(4, std::nullopt), 195, 2);  // 10 batches, 4 steps
  CHECK(by_epochs.steps_per_epoch == 4);
  CHECK(by_epochs.steps == 16);
  const RunLength by_steps = schedule_length(experiment_of(4, 9), 195, 2);
  CHECK(by_steps.steps == 9);
  CHECK(by_steps.epochs == 3);
  const RunLength without_epochs = schedule_length(experiment_of(std::nullopt, 401), 195, 2);
  CHECK(without_epochs.steps == 401);
  CHECK(without_epochs.known_epochs() == 101);
}

TEST_CASE("a run bounded by time alone has no known length") {
  Experiment experiment = experiment_of(std::nullopt, std::nullopt);
  experiment.trainer.max_time = "1h";
  const RunLength length = schedule_length(experiment, 195, 1);
  CHECK_FALSE(length.known_epochs().has_value());
  CHECK_FALSE(length.steps.has_value());
}
