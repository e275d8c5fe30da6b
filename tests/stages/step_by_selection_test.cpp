#include "stages/builtin.hpp"
#include "stages/optimizer/sgd.hpp"
#include "stages/optimizer_training.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <set>

using namespace trainctl;
using namespace stages_test;

TEST_CASE("step_by_selection: a skipped step with NaN gradients changes no bit") {
  for (const Variant& variant : variants()) {
    INFO(variant.type << " " << variant.options);
    for (const int before : {0, 4, 11}) {
      INFO("after " << before << " steps");
      Training training(variant);
      training.steps(0, before);
      const Kept kept = training.keep();
      for (int again = 0; again < 2; ++again) {
        training.give_gradients(before);
        training.corrupt_gradients();
        training.optimizer().step_by_selection(at::ones({1}));
      }
      const Kept found = training.keep();
      CHECK(differing(kept.weights, found.weights).empty());
      CHECK(differing(kept.state, found.state).empty());
      CHECK(kept.state_json == found.state_json);
    }
  }
}

TEST_CASE("step_by_selection: 20 steps without the skipped ones are bitwise equal to plain steps") {
  const std::set<int> skipped{0, 5, 6, 8, 13};
  for (const Variant& variant : variants()) {
    INFO(variant.type << " " << variant.options);
    Training plain(variant);
    Training selected(variant);
    for (int step = 0; step < 20; ++step) {
      const bool is_skipped = skipped.contains(step);
      selected.give_gradients(step);
      if (is_skipped) selected.corrupt_gradients();
      selected.optimizer().step_by_selection(at::full({1}, is_skipped ? 1.0F : 0.0F));
      if (is_skipped) continue;
      plain.give_gradients(step);
      plain.optimizer().step();
    }
    const Kept expected = plain.keep();
    const Kept found = selected.keep();
    CHECK(differing(expected.weights, found.weights).empty());
    CHECK(differing(expected.state, found.state).empty());
  }
}

TEST_CASE(
    "optimizers: all skip steps without synchronization, and fused kernels at no extra cost") {
  for (const Variant& variant : variants()) {
    INFO(variant.type << " " << variant.options);
    const std::string& type = variant.type;
    const bool has_kernel =
        type == "adam" || type == "adamw" || type == "adagrad" ||
        (type == "sgd" && variant.options.find("dampening") == std::string::npos);
    Training training(variant);
    CHECK(training.optimizer().skips_on_device());
    CHECK(training.optimizer().skips_in_kernel() == has_kernel);
  }
}

TEST_CASE("run_dampened_step: weights equal those of sgd with dampening") {
  const auto leaves = [] {
    Tensors all{{"early", at::arange(6, at::kFloat).view({2, 3})}, {"late", at::ones({4})}};
    for (const auto& [name, tensor] : all) tensor.requires_grad_(true);
    return all;
  };
  const Tensors expected = leaves();
  const Tensors found = leaves();
  const auto optimizer = stages::builtin_catalog().optimizers.build(
      stages_test::stage("optimizer", "sgd",
                         "{lr: 0.1, momentum: 0.9, dampening: 0.5, weight_decay: 0.1}"),
      {expected});
  stages::ParameterGroup group(found, {.weight_decay = 0.1, .state = {"momentum_buffer"}});
  group.set_lr(0.1);
  const at::Tensor started = at::zeros({2}, at::kBool);
  for (int step = 0; step < 5; ++step) {
    for (const Tensors& tensors : {expected, found}) {
      for (const auto& [name, tensor] : tensors) {
        if (name == "early" || step > 1) tensor.mutable_grad() = tensor.detach() * 0.3 + step;
      }
    }
    optimizer->step();
    group.collect();
    stages::run_dampened_step(group, started, {.momentum = 0.9, .dampening = 0.5});
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO(found[i].name << " after step " << step);
      CHECK(mismatch(found[i].tensor.detach(), expected[i].tensor.detach()) == "");
    }
    CHECK(started[0].item<bool>());
    CHECK(started[1].item<bool>() == (step > 1));
  }
}
