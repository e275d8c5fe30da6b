#include "engine/resolve/step_probe.hpp"

#include "spec/options/loss.hpp"
#include "spec/options/model.hpp"
#include "spec/options/task.hpp"
#include "support/catch.hpp"
#include "train/fake_run.hpp"

#include <utility>
#include <vector>

using namespace trainctl;

namespace {

/// Returns planned shares of the cores instead of those that other processes take.
class PlannedMeter {
 public:
  static void plan(std::vector<double> shares) { shares_ = std::move(shares); }

  [[nodiscard]] static double taken() {
    const double share = shares_.at(0);
    shares_.erase(shares_.begin());
    return share;
  }

 private:
  inline static std::vector<double> shares_;
};

/// Returns the choice, which is the number of probes, and the share that others took. Allows no
/// more than `most` probes.
std::pair<int, double> probed_with(std::vector<double> shares, int most = 9) {
  PlannedMeter::plan(std::move(shares));
  int probes = 0;
  return engine::probe_when_quiet<PlannedMeter>([&] { return ++probes; },
                                                [&] { return probes < most; });
}

}  // namespace

TEST_CASE("probe_when_quiet: probes until no other process uses the cores, at most three times") {
  CHECK(probed_with({0, 0.5}) == std::pair(1, 0.0));
  CHECK(probed_with({0.5, 0, 0.5}) == std::pair(2, 0.0));
  CHECK(probed_with({0.5, 0.25, 0, 0.5}) == std::pair(3, 0.0));
  CHECK(probed_with({0.5, 0.25, 0.75, 0}) == std::pair(3, 0.75));
  CHECK(probed_with({0.5, 0.25, 0}, 2) == std::pair(2, 0.25));
}

TEST_CASE("contention_warning: names a number of threads that was chosen on a busy machine") {
  events::RunStarted started{.world_size = 1, .num_threads = 2};
  CHECK_FALSE(engine::contention_warning(started));
  started.num_threads_taken = 0.5;
  const auto alone = engine::contention_warning(started);
  REQUIRE(alone);
  CHECK_THAT(alone->message, StartsWith("trainer.num_threads: auto chose 2, but other processes "
                                        "used 50 % of the cores during the measurement") &&
                                 EndsWith("suggests another value"));
  started.world_size = 2;  // the summary of several ranks has no such advice
  const auto together = engine::contention_warning(started);
  REQUIRE(together);
  CHECK_THAT(together->message, EndsWith("so the choice may be wrong"));
}

TEST_CASE("throwaway_step: with data_parallel, a step has the samples of one device") {
  FakeModel* model = nullptr;
  stage::Catalog catalog;
  catalog.models.add<spec::model::Mlp>(
      "mlp", [&model](const spec::model::Mlp&, const stage::ModelContext&) {
        auto made = std::make_unique<FakeModel>();
        model = made.get();
        return made;
      });
  catalog.losses.add<spec::loss::CrossEntropy>(
      "cross_entropy", [](const spec::loss::CrossEntropy&, const stage::LossContext&) {
        return std::make_unique<FakeLoss>();
      });
  catalog.tasks.add_class<spec::task::Auto, stage::Task>("auto");
  spec::Experiment experiment;
  experiment.model = config::make_stage("model", "mlp", spec::model::Mlp{});
  experiment.loss = config::make_stage("loss", "cross_entropy", spec::loss::CrossEntropy{});
  experiment.loader.batch_size = 10;
  const auto rows_with = [&](int devices) {
    const auto step = engine::throwaway_step({.experiment = experiment,
                                              .catalog = catalog,
                                              .model = {.input_shape = {1, 2, 3}, .outputs = 3},
                                              .devices = devices});
    step();
    return model->rows;
  };
  CHECK(rows_with(1) == 10);
  CHECK(rows_with(2) == 5);
  CHECK(rows_with(3) == 4);  // the first devices get one more
}
