#include "base/json_archive.hpp"
#include "stages/builtin.hpp"
#include "stages/optimizer/grouped.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <limits>

using namespace trainctl;

namespace {

using Parameters = std::vector<stage::NamedTensor>;

const std::string kSgd = "{type: sgd, lr: 0.5, momentum: 0.9, nesterov: true, weight_decay: 0.1}";
const std::string kLinear =
    "{type: linear_lr, interval: step, start_factor: 1, end_factor: 0, total_iters: 4}";

Parameters network() {
  return {{"conv.weight", at::ones({4, 6}).requires_grad_()},
          {"conv.bias", at::ones({4}).requires_grad_()},
          {"fc.weight", at::full({3, 4}, 2.0F).requires_grad_()}};
}

std::unique_ptr<stage::Optimizer> build(const std::string& type, const std::string& options,
                                        const Parameters& parameters,
                                        const stage::SchedulerContext* run = nullptr) {
  return stages::build_optimizer(stages::builtin_catalog(),
                                 stages_test::stage("optimizer", type, options), {parameters}, run);
}

void give_gradients(const Parameters& parameters, int step) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double value = 0.1 * (step + 1) + static_cast<double>(i);
    parameters[i].tensor.mutable_grad() = at::full_like(parameters[i].tensor, value);
  }
}

}  // namespace

TEST_CASE("build_optimizer: each group's optimizer gives the weights that it gives alone") {
  const stage::SchedulerContext run{0, 2, 10, std::nullopt};
  const Parameters together = network();
  const auto optimizer = build(
      "muon",
      "{lr: 0.2, groups: [{match: [bias, fc], optimizer: " + kSgd +
          "}, {match: [fc.weight], optimizer: {type: adamw, lr: 0.01}, scheduler: " + kLinear +
          "}]}",
      together, &run);
  const Parameters apart = network();
  const auto muon = build("muon", "{lr: 0.2}", {apart[0]});
  const auto sgd =
      build("sgd", "{lr: 0.5, momentum: 0.9, nesterov: true, weight_decay: 0.1}", {apart[1]});
  const auto adamw = build("adamw", "{lr: 0.01}", {apart[2]});
  CHECK(optimizer->initial_lr() == 0.2);
  CHECK(optimizer->is_repeatable());
  for (int step = 0; step < 6; ++step) {
    give_gradients(together, step);
    give_gradients(apart, step);
    const double share = 1 - step / 10.0;  // of the rate, by the scheduler of the experiment
    optimizer->set_lr(0.2 * share);
    optimizer->set_position(step / 10, step);
    optimizer->step();
    muon->set_lr(0.2 * share);
    sgd->set_lr(0.5 * (0.2 * share / 0.2));
    adamw->set_lr(0.01 * (1 - std::min(step, 4) / 4.0));
    for (const auto& one : {&muon, &sgd, &adamw}) (*one)->step();
    for (std::size_t i = 0; i < apart.size(); ++i) {
      INFO("step " << step << ", " << apart[i].name);
      CHECK(together[i].tensor.equal(apart[i].tensor));
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, tensor] : optimizer->state()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"conv.weight.momentum_buffer",
                                          "conv.bias.momentum_buffer", "fc.weight.exp_avg",
                                          "fc.weight.exp_avg_sq", "fc.weight.step"});
}

TEST_CASE("build_optimizer: zero_grad and a skipped step reach every group") {
  const Parameters parameters = network();
  const auto optimizer =
      build("adam", "{lr: 0.1, groups: [{match: [bias], optimizer: " + kSgd + "}]}", parameters);
  give_gradients(parameters, 0);
  parameters[1].tensor.mutable_grad().fill_(std::numeric_limits<float>::infinity());
  const Parameters before = network();
  optimizer->step_unless(at::ones({1}));
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(parameters[i].tensor.equal(before[i].tensor));
  optimizer->zero_grad();
  for (const auto& [name, parameter] : parameters)
    CHECK(parameter.grad().abs().sum().item<float>() == 0);
}

TEST_CASE("build_optimizer: a restored optimizer with groups continues bitwise equally") {
  const std::string options = "{lr: 0.2, groups: [{match: [bias], optimizer: " + kSgd +
                              "}, {match: [fc], optimizer: {type: adam, lr: 0.1}}]}";
  const Parameters whole = network();
  const auto optimizer = build("muon", options, whole);
  const auto take = [](stage::Optimizer& one, const Parameters& parameters, int step) {
    give_gradients(parameters, step);
    one.step();
  };
  for (int step = 0; step < 3; ++step) take(*optimizer, whole, step);
  optimizer->set_lr(0.05);
  const Parameters resumed = network();
  const auto restored = build("muon", options, resumed);
  {
    const at::NoGradGuard guard;
    for (std::size_t i = 0; i < whole.size(); ++i) resumed[i].tensor.copy_(whole[i].tensor);
  }
  const auto state = restored->state();
  const auto saved = optimizer->state();
  REQUIRE(state.size() == saved.size());
  for (std::size_t i = 0; i < state.size(); ++i) state[i].tensor.copy_(saved[i].tensor);
  recall(*restored, remember(*optimizer));
  for (int step = 3; step < 6; ++step) {
    take(*optimizer, whole, step);
    take(*restored, resumed, step);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(whole[i].tensor.equal(resumed[i].tensor));
}

TEST_CASE("build_optimizer: owned parameters of zero1 stay with their group") {
  const Parameters parameters = network();
  const auto optimizer = stages::build_optimizer(
      stages::builtin_catalog(),
      stages_test::stage(
          "optimizer", "adam",
          "{lr: 0.1, groups: [{match: [bias, fc.weight], optimizer: " + kSgd + "}]}"),
      {parameters, {false, false, true}});
  REQUIRE(optimizer->state().size() == 1);
  CHECK(optimizer->state().front().name == "fc.weight.momentum_buffer");
}

TEST_CASE("build_optimizer: groups that cannot be built are errors") {
  const auto failing = [](const std::string& groups) {
    const stage::SchedulerContext run{0, 2, 10, std::nullopt};
    (void)build("muon", "{groups: [" + groups + "]}", network(), &run);
  };
  CHECK_THROWS_WITH(failing("{match: [fcc], optimizer: sgd}"),
                    Contains("groups: 'fcc' matches no trained parameter"));
  CHECK_THROWS_WITH(failing("{match: ['*'], optimizer: sgd}"),
                    Contains("update every parameter, so that none is left to 'muon'"));
  CHECK_THROWS_WITH(failing("{match: [fc], optimizer: sgd, scheduler: reduce_lr_on_plateau}"),
                    Contains("must not monitor a value or set the momentum"));
  CHECK_THROWS_WITH(
      failing("{match: [fc], optimizer: {type: sgd, groups: [{match: [conv], lr_scale: 2}]}}"),
      Contains("'conv' matches no trained parameter"));
  CHECK_THROWS_WITH(
      build("muon", "{adamw_on: [fc], groups: [{match: [fc], optimizer: sgd}]}", network()),
      Contains("parameters that no group's optimizer updates") &&
          Contains("adamw_on: 'fc' matches no trained parameter"));
  CHECK_NOTHROW(failing("{match: [norm], optimizer: sgd}"));  // a network may have no norms
}
