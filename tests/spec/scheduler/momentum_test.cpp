#include "spec/experiment_yaml.hpp"
#include "spec/options/optimizer.hpp"
#include "spec/options/scheduler.hpp"
#include "support/catch.hpp"

using namespace trainctl;

namespace {

/// Returns the momentum of SGD with that scheduler.
double momentum_of_sgd(const std::string& options, const std::string& scheduler) {
  const spec::Experiment experiment =
      load_valid({"optimizer={type: sgd" + options + "}", "scheduler=" + scheduler}).experiment;
  return spec::with_scheduled_momentum(experiment.optimizer, experiment.scheduler)
      .as<spec::optimizer::Sgd>()
      .momentum;
}

}  // namespace

TEST_CASE("one_cycle_lr: SGD without momentum gets one, as in PyTorch", "[spec]") {
  CHECK(momentum_of_sgd("", "one_cycle_lr") == 0.95);
  CHECK(momentum_of_sgd("", "{type: one_cycle_lr, max_momentum: 0.9}") == 0.9);
  CHECK(momentum_of_sgd("",
                        "{type: sequential_lr, milestones: [2], schedulers: [constant, "
                        "one_cycle_lr]}") == 0.95);
  CHECK(momentum_of_sgd(", momentum: 0.5", "one_cycle_lr") == 0.5);
  CHECK(momentum_of_sgd("", "{type: one_cycle_lr, cycle_momentum: false}") == 0);
  CHECK(momentum_of_sgd("", "constant") == 0);
}
