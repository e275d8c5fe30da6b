#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <limits>

using namespace trainctl;

namespace {

std::unique_ptr<stage::Scheduler> make_scheduler(const std::string& type,
                                                 const std::string& options,
                                                 const stage::SchedulerContext& context = {0.1, 30,
                                                                                           100}) {
  return stages::builtin_catalog().schedulers.build(stages_test::stage("scheduler", type, options),
                                                    context);
}

}  // namespace

TEST_CASE("schedulers: the learning rates of 30 epochs equal PyTorch's") {
  const Json golden = stages_test::golden("schedulers");
  for (const Json& run : golden["cases"]) {
    INFO(run["type"] << " " << run["options"]);
    const auto scheduler =
        make_scheduler(run["type"], run["options"].dump(), {golden["initial_lr"], 30, 100});
    for (std::int64_t epoch = 0; epoch < 30; ++epoch) {
      INFO("epoch " << epoch);
      const double expected = run["lr"][static_cast<std::size_t>(epoch)];
      CHECK(std::abs(scheduler->lr(epoch, epoch * 100) - expected) <= 1e-12);
      scheduler->observe(epoch, golden["observed"][static_cast<std::size_t>(epoch)]);
    }
  }
}

TEST_CASE("schedulers: interval step counts optimizer steps, also in the warm-up") {
  const auto scheduler =
      make_scheduler("step_lr", "{interval: step, step_size: 50, gamma: 0.5, warmup: 10}");
  CHECK(scheduler->lr(0, 0) == Approx(0.01));
  CHECK(scheduler->lr(0, 5) == Approx(0.055));
  CHECK(scheduler->lr(0, 10) == 0.1);
  CHECK(scheduler->lr(0, 59) == 0.1);
  CHECK(scheduler->lr(0, 60) == 0.05);
  CHECK(scheduler->lr(1, 110) == 0.025);
}

TEST_CASE("warm-up: epochs and fractions of the run rise linearly in every step") {
  const stage::SchedulerContext run{0.1, 20, 100};
  for (const std::string type : {"constant", "cosine_annealing_lr", "wsd", "one_cycle_lr"}) {
    INFO(type);
    const auto with = [&](const std::string& warmup) {
      return make_scheduler(type, "{interval: step, warmup: " + warmup + "}", run);
    };
    const auto by_steps = with("500");
    const auto by_epochs = with("5ep");
    const auto by_fraction = with("0.25");
    for (std::int64_t step = 0; step < 2000; step += 7) {
      INFO("step " << step);
      CHECK(by_epochs->lr(step / 100, step) == by_steps->lr(step / 100, step));
      CHECK(by_fraction->lr(step / 100, step) == by_steps->lr(step / 100, step));
      if (step < 500) {
        const double fraction = 0.1 + 0.9 * static_cast<double>(step) / 500;
        CHECK(by_epochs->lr(step / 100, step) == Approx(0.1 * fraction));
      }
    }
  }
}

TEST_CASE("warm-up: with interval epoch the rate rises once an epoch") {
  const auto by_epochs = make_scheduler("constant", "{warmup: 3ep}");
  const auto by_fraction = make_scheduler("constant", "{warmup: 0.1}");  // 3 of 30 epochs
  for (const std::int64_t epoch : {0, 1, 2, 3, 4}) {
    const double expected = make_scheduler("constant", "{warmup: 3}")->lr(epoch, epoch * 100 + 50);
    CHECK(by_epochs->lr(epoch, epoch * 100 + 50) == expected);
    CHECK(by_fraction->lr(epoch, epoch * 100 + 50) == expected);
  }
}

TEST_CASE("warm-up: a fraction needs a known run length and lasts at least one interval") {
  CHECK_THROWS_WITH(make_scheduler("constant", "{warmup: 0.1}", {0.1, 0, 100}),
                    Contains("warmup 0.1 is a fraction of the run, whose length is not "
                             "known in advance"));
  CHECK_NOTHROW(make_scheduler("constant", "{warmup: 5ep}", {0.1, 0, 100}));
  const auto brief = make_scheduler("constant", "{warmup: 0.001}");
  CHECK(brief->lr(0, 0) == Approx(0.01));
  CHECK(brief->lr(1, 100) == 0.1);
  const auto none = make_scheduler("constant", "{warmup: 0.0}");
  CHECK(none->lr(0, 0) == 0.1);
  const auto cut = make_scheduler("constant", "{interval: step, warmup: 0.5}", {0.1, 30, 100, 200});
  CHECK(cut->lr(0, 50) == Approx(0.1 * 0.55));
  CHECK(cut->lr(1, 100) == 0.1);
}

TEST_CASE("cosine_annealing_lr: t_max=auto ends with the run") {
  const auto by_epoch = make_scheduler("cosine_annealing_lr", "{warmup: 5, eta_min: 0.02}");
  CHECK(by_epoch->lr(5, 500) == 0.1);
  CHECK(by_epoch->lr(30, 3000) == Approx(0.02));
  const auto by_step = make_scheduler("cosine_annealing_lr", "{interval: step, warmup: 500}");
  CHECK(by_step->lr(5, 500) == 0.1);
  CHECK(by_step->lr(17, 1750) == Approx(0.05));
  CHECK(by_step->lr(29, 3000) == Approx(0).margin(1e-12));
  const auto cut_short =
      make_scheduler("cosine_annealing_lr", "{interval: step}", {0.1, 2, 100, 150});
  CHECK(cut_short->lr(0, 75) == Approx(0.05));
  CHECK(cut_short->lr(1, 150) == Approx(0).margin(1e-12));
}

TEST_CASE("cosine_annealing_lr: t_max=auto ends at max_steps and needs a known run length") {
  const auto by_step =
      make_scheduler("cosine_annealing_lr", "{interval: step}", {0.1, 30, 100, 250});
  CHECK(by_step->lr(1, 125) == Approx(0.05));
  CHECK(by_step->lr(2, 250) == Approx(0).margin(1e-12));
  CHECK_THROWS_WITH(make_scheduler("cosine_annealing_lr", "{}", {0.1, 0, 100}),
                    Contains("length of the run is not known"));
  CHECK_NOTHROW(make_scheduler("cosine_annealing_lr", "{t_max: 5}", {0.1, 0, 100}));
}

TEST_CASE("cosine_annealing_lr: a warm-up as long as the run is an error") {
  CHECK_THROWS_WITH(make_scheduler("cosine_annealing_lr", "{warmup: 30}"),
                    Contains("the warm-up of 30 epochs must be shorter than the run of 30 epochs"));
  CHECK_NOTHROW(make_scheduler("cosine_annealing_lr", "{warmup: 30, t_max: 5}"));
}

TEST_CASE("multi_step_lr: milestones that are not ascending are an error") {
  CHECK_THROWS_WITH(make_scheduler("multi_step_lr", "{milestones: [30, 60, 60]}"),
                    Contains("milestones must be in ascending order, but 60 follows 60"));
  CHECK_THROWS_WITH(make_scheduler("multi_step_lr", "{milestones: [60, 30]}"),
                    Contains("milestones must be in ascending order, but 30 follows 60"));
}

TEST_CASE("schedulers: only reduce_lr_on_plateau monitors a value") {
  CHECK(make_scheduler("constant", "{}")->monitor().empty());
  CHECK(make_scheduler("reduce_lr_on_plateau", "{}")->monitor() == "val/loss");
  CHECK(make_scheduler("reduce_lr_on_plateau", "{monitor: val/accuracy}")->monitor() ==
        "val/accuracy");
}

TEST_CASE("reduce_lr_on_plateau: NaN counts as no improvement") {
  const auto scheduler = make_scheduler("reduce_lr_on_plateau", "{patience: 1}");
  scheduler->observe(0, std::numeric_limits<double>::quiet_NaN());
  CHECK(scheduler->lr(1, 100) == 0.1);
  scheduler->observe(1, std::numeric_limits<double>::quiet_NaN());
  CHECK(scheduler->lr(2, 200) == Approx(0.01));
}

TEST_CASE("reduce_lr_on_plateau: mode=auto maximizes val/accuracy") {
  const auto scheduler =
      make_scheduler("reduce_lr_on_plateau", "{monitor: val/accuracy, patience: 0}");
  scheduler->observe(0, 0.5);
  scheduler->observe(1, 0.9);
  CHECK(scheduler->lr(2, 200) == 0.1);
  scheduler->observe(2, 0.8);
  CHECK(scheduler->lr(3, 300) == Approx(0.01));
}

TEST_CASE("reduce_lr_on_plateau: epochs that start in the warm-up do not count as bad") {
  const auto scheduler = make_scheduler("reduce_lr_on_plateau", "{warmup: 3, patience: 0}");
  for (const std::int64_t epoch : {0, 1, 2}) scheduler->observe(epoch, 1.0);
  CHECK(scheduler->lr(2, 200) == Approx(0.07));
  CHECK(scheduler->lr(3, 300) == 0.1);
  scheduler->observe(3, 1.0);
  CHECK(scheduler->lr(4, 400) == 0.1);
  scheduler->observe(4, 1.0);
  CHECK(scheduler->lr(5, 500) == Approx(0.01));
}

TEST_CASE("wsd: the rate is constant, then decays until the end of the run") {
  const auto scheduler = make_scheduler("wsd", "{warmup: 5, decay_fraction: 0.4, decay: linear}");
  CHECK(scheduler->lr(0, 0) == Approx(0.01));
  for (const std::int64_t epoch : {5, 10, 20}) CHECK(scheduler->lr(epoch, 0) == 0.1);
  CHECK(scheduler->lr(25, 0) == Approx(0.05));
  CHECK(scheduler->lr(30, 0) == 0);
  CHECK(scheduler->lr(40, 0) == 0);
  const auto cosine = make_scheduler("wsd", "{decay: cosine, decay_fraction: 1, end_factor: 0.1}");
  CHECK(cosine->lr(15, 0) == Approx(0.055));
  CHECK(cosine->lr(30, 0) == Approx(0.01));
  const auto root = make_scheduler("wsd", "{interval: step, decay_fraction: 0.5}");
  CHECK(root->lr(15, 1500) == 0.1);
  CHECK(root->lr(18, 1500 + 375) == Approx(0.05));
}

TEST_CASE("schedulers: a length of auto is the rest of the run after the warm-up") {
  const std::string falling = "start_factor: 1, end_factor: 0, total_iters: auto";
  CHECK(make_scheduler("linear_lr", "{warmup: 10, " + falling + "}")->lr(20, 0) == Approx(0.05));
  CHECK(make_scheduler("polynomial_lr", "{warmup: 10, power: 2, total_iters: auto}")->lr(20, 0) ==
        Approx(0.025));
  const auto cycle = make_scheduler("one_cycle_lr", "{}");
  CHECK(cycle->lr(0, 0) == Approx(0.004));
  CHECK(cycle->lr(8, 899) == Approx(0.1));
  CHECK(cycle->lr(29, 2999) == Approx(4e-7));
  CHECK(cycle->lr(40, 4000) == Approx(4e-7));
  for (const std::string type : {"linear_lr", "polynomial_lr", "one_cycle_lr", "wsd"}) {
    INFO(type);
    const bool has_iters = type == "linear_lr" || type == "polynomial_lr";
    const std::string open = has_iters ? "{total_iters: auto, interval: epoch" : "{interval: epoch";
    CHECK_THROWS_WITH(
        make_scheduler(type, open + ", warmup: 30}"),
        Contains("the warm-up of 30 epochs must be shorter than the run of 30 epochs"));
    CHECK_THROWS_WITH(make_scheduler(type, open + "}", {0.1, 0, 100}),
                      Contains("length of the run is not known"));
  }
}

TEST_CASE("one_cycle_lr: three_phase with pct_start above 0.5 is an error") {
  CHECK_THROWS_WITH(make_scheduler("one_cycle_lr", "{three_phase: true, pct_start: 0.6}"),
                    Contains("must be at most 0.5"));
}
