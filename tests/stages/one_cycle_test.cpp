#include "spec/options/scheduler.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>

#include <cmath>

using namespace trainctl;
using stages_test::tensor;

namespace {

std::unique_ptr<stage::Scheduler> make_one_cycle(const std::string& type,
                                                 const std::string& options) {
  return stages::builtin_catalog().schedulers.build(stages_test::stage("scheduler", type, options),
                                                    {0.1, 3, 10});
}

std::unique_ptr<stage::Optimizer> optimizer_of(const std::string& type, const std::string& options,
                                               const at::Tensor& weight) {
  return stages::builtin_catalog().optimizers.build(stages_test::stage("optimizer", type, options),
                                                    {{{"weight", weight}}});
}

}  // namespace

TEST_CASE("one_cycle_lr: learning rate and momentum equal PyTorch's") {
  const Json golden = stages_test::golden("one_cycle");
  REQUIRE(golden["initial_lr"] == 0.1);
  for (const Json& run : golden["cases"]) {
    INFO(run["options"]);
    const auto scheduler = make_one_cycle("one_cycle_lr", run["options"].dump());
    CHECK(scheduler->cycles_momentum());
    for (std::int64_t step = 0; step < golden["steps"]; ++step) {
      INFO("step " << step);
      const auto at = static_cast<std::size_t>(step);
      CHECK(std::abs(scheduler->lr(0, step) - run["lr"][at].get<double>()) <= 1e-12);
      REQUIRE(scheduler->momentum(0, step));
      CHECK(std::abs(*scheduler->momentum(0, step) - run["momentum"][at].get<double>()) <= 1e-12);
    }
  }
}

TEST_CASE("one_cycle_lr: optimizers with a cycled momentum end at PyTorch's weights") {
  const Json golden = stages_test::golden("one_cycle");
  for (const Json& run : golden["followers"]) {
    INFO(run["type"] << " " << run["options"]);
    const at::Tensor weight = tensor(golden["start"]).requires_grad_(true);
    const config::Stage cycle = stages_test::stage("scheduler", "one_cycle_lr", "{}");
    const auto optimizer = stages::builtin_catalog().optimizers.build(
        spec::with_scheduled_momentum(
            stages_test::stage("optimizer", run["type"], run["options"].dump()), cycle),
        {{{"weight", weight}}});
    REQUIRE(optimizer->has_momentum());
    const auto scheduler =
        stages::builtin_catalog().schedulers.build(cycle, {optimizer->initial_lr(), 3, 10});
    for (std::int64_t step = 0; step < golden["steps"]; ++step) {
      weight.mutable_grad() = tensor(golden["gradients"][static_cast<std::size_t>(step)]);
      optimizer->set_lr(scheduler->lr(0, step));
      optimizer->set_momentum(*scheduler->momentum(0, step));
      optimizer->step();
    }
    CHECK(mismatch(weight.detach(), tensor(run["weight"])) == "");
  }
}

TEST_CASE("one_cycle_lr: cycle_momentum=false leaves the momentum unchanged") {
  CHECK(make_one_cycle("one_cycle_lr", "{}")->cycles_momentum());
  const auto plain = make_one_cycle("one_cycle_lr", "{cycle_momentum: false}");
  CHECK_FALSE(plain->cycles_momentum());
  CHECK_FALSE(plain->momentum(0, 3));
  CHECK_FALSE(make_one_cycle("step_lr", "{step_size: 2}")->cycles_momentum());
}

TEST_CASE("one_cycle_lr: momentum is highest during warm-up and after the end") {
  const auto cycle = make_one_cycle("one_cycle_lr", "{warmup: 10}");
  for (const std::int64_t step : {0, 5, 10}) CHECK(*cycle->momentum(0, step) == Approx(0.95));
  CHECK(*cycle->momentum(0, 15) == Approx(0.85));  // the rate rises for 0.3 * 20 - 1 steps
  CHECK(*cycle->momentum(0, 29) == Approx(0.95));
  CHECK(*cycle->momentum(0, 100) == Approx(0.95));
}

TEST_CASE("sequential_lr: momentum is set only while one_cycle_lr is active") {
  const auto sequence = make_one_cycle(
      "sequential_lr", "{schedulers: [constant, one_cycle_lr], milestones: [10], interval: step}");
  CHECK(sequence->cycles_momentum());
  CHECK_FALSE(sequence->momentum(0, 9));
  CHECK(*sequence->momentum(1, 10) == Approx(0.95));
  CHECK(*sequence->momentum(1, 15) == Approx(0.85));
}

TEST_CASE("sequential_lr: the last momentum of one_cycle_lr remains for the next scheduler") {
  const std::string cut = "total_steps: 20}";
  const auto cycle = make_one_cycle("one_cycle_lr", "{" + cut);
  const auto check = [&](const std::string& milestones, std::int64_t begin) {
    const auto sequence =
        make_one_cycle("sequential_lr", "{schedulers: [{type: one_cycle_lr, " + cut +
                                            ", {type: constant}], " + milestones + "}");
    const double left = *cycle->momentum((begin - 1) / 10, begin - 1);
    CHECK(left > 0.85);
    CHECK(left < 0.95);
    for (const std::int64_t step : {begin - 1, begin, begin + 3, std::int64_t{29}})
      CHECK(sequence->momentum(step / 10, step) == left);
  };
  check("milestones: [4], interval: step", 4);
  check("milestones: [13], interval: step", 13);
  check("milestones: [1], interval: epoch", 10);
}

TEST_CASE("one_cycle_lr: a first phase of at most one step gives finite rates and momenta") {
  for (const char* options : {"total_steps: 10, pct_start: 0.1", "total_steps: 20, pct_start: 0.05",
                              "total_steps: 5, pct_start: 0.1", "total_steps: 2, pct_start: 0.5",
                              "total_steps: 10, pct_start: 0.1, three_phase: true",
                              "total_steps: 10, pct_start: 0.5, three_phase: true",
                              "total_steps: 10, pct_start: 0.1, anneal_strategy: linear"}) {
    INFO(options);
    const auto cycle = make_one_cycle("one_cycle_lr", std::string("{") + options + "}");
    for (std::int64_t step = 0; step < 30; ++step) {
      INFO("step " << step);
      const double rate = cycle->lr(step / 10, step);
      CHECK((rate > 0 && rate <= 0.1 * (1 + 1e-12)));
      const double momentum = *cycle->momentum(step / 10, step);
      CHECK((momentum >= 0.85 - 1e-12 && momentum <= 0.95 + 1e-12));
    }
    CHECK(cycle->lr(2, 29) == Approx(0.1 / 25 / 1e4));
  }
  const auto sudden = make_one_cycle("one_cycle_lr", "{total_steps: 10, pct_start: 0.1}");
  CHECK(sudden->lr(0, 0) == Approx(0.1));  // the increase ends in its first step
}

TEST_CASE(
    "optimizers: has_momentum() follows the options, and set_momentum() affects the next step") {
  struct Row {
    const char* type;
    const char* options;
    bool has;
  };
  for (const Row& row :
       {Row{"sgd", "{}", false}, Row{"sgd", "{momentum: 0.9}", true}, Row{"rmsprop", "{}", false},
        Row{"rmsprop", "{momentum: 0.9}", true}, Row{"adagrad", "{}", false},
        Row{"adam", "{}", true}, Row{"adamw", "{}", true}, Row{"nadam", "{}", true},
        Row{"radam", "{}", true}, Row{"lion", "{}", true}, Row{"lamb", "{}", true},
        Row{"muon", "{}", true}}) {
    INFO(row.type << " " << row.options);
    const auto after = [&](bool sets) {
      const at::Tensor weight = at::ones({3, 3}).requires_grad_(true);
      const auto optimizer = optimizer_of(row.type, row.options, weight);
      CHECK(optimizer->has_momentum() == row.has);
      for (const double gradient : {1.0, -0.005, 0.01}) {
        if (sets && gradient < 1) optimizer->set_momentum(0.2);
        weight.mutable_grad() = at::full({3, 3}, gradient);
        weight.mutable_grad()[0][1] = -0.25;
        optimizer->step();
      }
      return weight.detach();
    };
    if (row.has) CHECK_FALSE(after(true).equal(after(false)));
    if (!row.has) (void)after(false);
  }
}

TEST_CASE("set_momentum: lion, lamb and muon use the new value in the next step") {
  const auto after_two = [](const char* type, const char* options, const at::Tensor& first,
                            double momentum, const at::Tensor& second) {
    const at::Tensor weight = at::ones_like(first).requires_grad_(true);
    const auto optimizer = optimizer_of(type, options, weight);
    weight.mutable_grad() = first.clone();
    optimizer->step();
    optimizer->set_momentum(momentum);
    weight.mutable_grad() = second.clone();
    optimizer->step();
    return weight.detach();
  };
  // The average is 0.01 after the first step. 0.2 * 0.01 - 0.8 * 0.005 is negative, so the second
  // step reverses the first; 0.9 * 0.01 - 0.1 * 0.005 is not.
  const at::Tensor lion =
      after_two("lion", "{lr: 0.1}", at::full({1}, 1.0), 0.2, at::full({1}, -0.005));
  CHECK(lion.item<double>() == Approx(1));

  // The average is 0.05, and 0.2 * 0.05 - 0.8 * 0.05 is negative: the second step reverses the
  // first.
  const at::Tensor muon = after_two("muon", "{lr: 0.1, nesterov: false, weight_decay: 0}",
                                    at::full({1, 1}, 1.0), 0.2, at::full({1, 1}, -0.05));
  CHECK(muon.item<double>() == Approx(1));

  // The averages are 0.1, then 0.5 * 0.1 -+ 0.5 divided by 1 - 0.5^2; that of the squares is 1.
  const at::Tensor lamb =
      after_two("lamb", "{lr: 0.1}", at::full({2}, 1.0), 0.5, tensor(Json::array({-1.0, 1.0})));
  const double down = -0.45 / 0.75;
  const double up = 0.55 / 0.75;
  const double trust = 0.9 * std::sqrt(2.0) / std::hypot(down, up);
  CHECK(lamb[0].item<double>() == Approx(0.9 - 0.1 * trust * down).epsilon(1e-4));
  CHECK(lamb[1].item<double>() == Approx(0.9 - 0.1 * trust * up).epsilon(1e-4));
}
