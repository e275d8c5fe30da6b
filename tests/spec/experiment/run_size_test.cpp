#include "spec/experiment/experiment.hpp"
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

TEST_CASE("epoch_limit: is 10 if nothing else ends the run") {
  CHECK(Trainer{}.epoch_limit() == 10);
  CHECK(Trainer{.max_epochs = 3, .max_steps = 5}.epoch_limit() == 3);
  CHECK_FALSE(Trainer{.max_steps = 5}.epoch_limit().has_value());
  CHECK_FALSE(Trainer{.max_time = "1h"}.epoch_limit().has_value());
}

TEST_CASE("schedule_length: uses the shorter of max_epochs and max_steps") {
  const RunLength by_epochs =
      schedule_length(experiment_of(4, std::nullopt), 195, 2);  // an epoch has 4 steps
  CHECK(by_epochs.steps_per_epoch == 4);
  CHECK(by_epochs.steps == 16);
  const RunLength by_steps = schedule_length(experiment_of(4, 9), 195, 2);
  CHECK(by_steps.steps == 9);
  CHECK(by_steps.epochs == 3);
  const RunLength without_epochs = schedule_length(experiment_of(std::nullopt, 401), 195, 2);
  CHECK(without_epochs.steps == 401);
  CHECK(without_epochs.known_epochs() == 101);
}

TEST_CASE("schedule_length: is unknown with max_time alone") {
  Experiment experiment = experiment_of(std::nullopt, std::nullopt);
  experiment.trainer.max_time = "1h";
  const RunLength length = schedule_length(experiment, 195, 1);
  CHECK_FALSE(length.known_epochs().has_value());
  CHECK_FALSE(length.steps.has_value());
}
