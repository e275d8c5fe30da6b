#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

using namespace trainctl;
using stages_test::tensor;

namespace {

std::unique_ptr<stage::Optimizer> make_optimizer(const std::string& type,
                                                 const std::string& options,
                                                 std::vector<stage::NamedTensor> parameters) {
  return stages::builtin_catalog().optimizers.build(stages_test::stage("optimizer", type, options),
                                                    {std::move(parameters)});
}

at::Tensor leaf(const at::Tensor& values) { return values.clone().requires_grad_(true); }

std::vector<stage::NamedTensor> leaves(const Json& start) {
  return {{"weight", leaf(tensor(start[0]))},
          {"bias", leaf(tensor(start[1]))},
          {"tall.weight", leaf(tensor(start[2]))}};
}

/// Compares the weights after the recorded steps with PyTorch's.
void check_replay(const Json& golden, const Json& run, const std::string& form) {
  const auto parameters = leaves(golden["start"]);
  const auto optimizer = make_optimizer(run["type"], run["options"].dump(), parameters);
  std::size_t kept = 0;
  for (std::size_t step = 1; step <= golden["gradients"].size(); ++step) {
    optimizer->zero_grad();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor gradient = tensor(golden["gradients"][step - 1][i]);
      at::Tensor& kept_gradient = parameters[i].tensor.mutable_grad();
      kept_gradient = kept_gradient.defined() ? kept_gradient.add_(gradient) : gradient;
    }
    optimizer->step();
    if (golden["kept_steps"][kept] == step) {
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        INFO("step " << step << " of " << form << ", " << parameters[i].name);
        CHECK(mismatch(parameters[i].tensor.detach(), tensor(run[form][kept][i])) == "");
      }
      ++kept;
    }
    if (golden["drop_after"] == step) optimizer->set_lr(optimizer->initial_lr() * 0.1);
  }
  CHECK(kept == golden["kept_steps"].size());
}

}  // namespace

TEST_CASE("optimizers: 20 steps give PyTorch's weights") {
  const Json golden = stages_test::golden("optimizers");
  for (const Json& run : golden["cases"]) {
    INFO(run["type"] << " " << run["options"]);
    check_replay(golden, run, "fused");
    check_replay(golden, run, "plain");
  }
}

TEST_CASE("muon: steps in bfloat16 match torch.optim.Muon's") {
  const Json golden = stages_test::golden("optimizers");
  for (const Json& run : golden["muon"]) {
    INFO(run["options"]);
    const double lr = run["options"]["lr"];
    const std::vector<stage::NamedTensor> parameters{
        {"wide.weight", leaf(tensor(golden["matrices"][0]))},
        {"tall.weight", leaf(tensor(golden["matrices"][1]))}};
    const auto optimizer = make_optimizer("muon", run["options"].dump(), parameters);
    std::size_t kept = 0;
    for (std::size_t step = 1; step <= golden["matrix_gradients"].size(); ++step) {
      for (std::size_t i = 0; i < parameters.size(); ++i)
        parameters[i].tensor.mutable_grad() = tensor(golden["matrix_gradients"][step - 1][i]);
      optimizer->step();
      if (golden["kept_steps"][kept] == step) {
        // bfloat16 products may round differently on another CPU: by a hundredth of each step.
        const double bound = 0.01 * lr * static_cast<double>(step);
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          const at::Tensor expected = tensor(run["weights"][kept][i]);
          CHECK((parameters[i].tensor.detach() - expected).abs().max().item<double>() <= bound);
        }
        ++kept;
      }
      if (golden["drop_after"] == step) optimizer->set_lr(lr * 0.1);
    }
    CHECK(kept == golden["kept_steps"].size());
  }
}

TEST_CASE("muon: iterations run in bfloat16, or in float32 on request") {
  // From 0 with rate 1 the weights equal the step, up to the sign.
  const at::Tensor gradient = tensor(stages_test::golden("optimizers")["matrix_gradients"][0][0]);
  const auto step_of = [&](const std::string& options) {
    const at::Tensor weight = leaf(at::zeros({8, 24}));
    const auto optimizer = make_optimizer("muon", options, {{"weight", weight}});
    weight.mutable_grad() = gradient.clone();
    optimizer->step();
    return weight.detach();
  };
  const auto is_bfloat16 = [](const at::Tensor& values) {
    return values.equal(values.to(at::kBFloat16).to(at::kFloat));
  };
  const at::Tensor by_default = step_of("{lr: 1}");
  const at::Tensor precise = step_of("{lr: 1, ns_dtype: float32}");
  CHECK(is_bfloat16(by_default));
  CHECK_FALSE(is_bfloat16(precise));
  CHECK((by_default - precise).abs().max().item<double>() < 0.05);
  // The learning rate is not rounded to bfloat16.
  CHECK(mismatch(step_of("{lr: 0.3}"), by_default * 0.3) == "");
}

TEST_CASE("muon: flatten_filters updates a filter as the matrix with a row per output channel") {
  at::manual_seed(3);
  const at::Tensor gradient = at::randn({8, 3, 3, 3});
  const auto step_of = [&](const std::string& options, const at::Tensor& given) {
    const at::Tensor weight = leaf(at::zeros_like(given));
    const auto optimizer = make_optimizer("muon", options, {{"weight", weight}});
    weight.mutable_grad() = given.clone();
    optimizer->step();
    return weight.detach();
  };
  const std::string options = "{lr: 1, ns_dtype: float32, flatten_filters: true}";
  const at::Tensor expected = step_of(options, gradient.flatten(1));
  CHECK(mismatch(step_of(options, gradient).flatten(1), expected) == "");
  const at::Tensor last = gradient.contiguous(at::MemoryFormat::ChannelsLast);
  CHECK(mismatch(step_of(options, last).flatten(1), expected) == "");
  // Without the option, AdamW's first step has the same size for every weight.
  CHECK(step_of("{lr: 1}", gradient).abs().min().item<double>() == Approx(1).epsilon(1e-3));
}

TEST_CASE("muon: normalize_weights scales matrices to the root of their rows before each step") {
  at::manual_seed(4);
  const at::Tensor start = at::randn({8, 3, 3, 3});
  const at::Tensor gradient = at::randn({8, 3, 3, 3});
  const auto after_step = [&](const at::Tensor& from, const std::string& more) {
    const at::Tensor weight = leaf(from);
    const auto optimizer = make_optimizer(
        "muon", "{lr: 0.1, weight_decay: 0, flatten_filters: true" + more + "}", {{"w", weight}});
    weight.mutable_grad() = gradient.clone();
    optimizer->step();
    return weight.detach();
  };
  const at::Tensor scaled = start * (std::sqrt(8.0) / start.norm().item<double>());
  const at::Tensor expected = after_step(scaled, "");
  CHECK(mismatch(after_step(start, ", normalize_weights: true"), expected) == "");
  CHECK(mismatch(after_step(start * 7, ", normalize_weights: true"), expected) == "");
  CHECK(
      after_step(at::zeros_like(start), ", normalize_weights: true").isfinite().all().item<bool>());
}

TEST_CASE("optimizers: a parameter without a gradient is skipped and has its own step count") {
  for (const std::string type : {"adam", "adamw", "sgd"}) {
    INFO(type);
    const std::string options =
        type == "sgd" ? "{lr: 0.1, momentum: 0.9, dampening: 0.5}" : "{lr: 0.1}";
    const std::vector<stage::NamedTensor> both{{"early", leaf(at::ones({3}))},
                                               {"late", leaf(at::ones({3}))}};
    const std::vector<stage::NamedTensor> alone{{"late", leaf(at::ones({3}))}};
    const auto joint = make_optimizer(type, options, both);
    const auto single = make_optimizer(type, options, alone);

    both[0].tensor.mutable_grad() = at::full({3}, 0.5);
    joint->step();
    joint->step();
    CHECK(both[1].tensor.equal(at::ones({3})));
    CHECK(both[0].tensor.lt(1).all().item<bool>());

    for (const at::Tensor& late : {both[1].tensor, alone[0].tensor})
      late.mutable_grad() = at::full({3}, 0.5);
    joint->step();
    single->step();
    single->step();
    joint->step();
    CHECK(both[1].tensor.equal(alone[0].tensor));
  }
}

TEST_CASE("optimizers: a step without gradients changes nothing") {
  for (const std::string type : {"adam", "adamw", "sgd"}) {
    const std::vector<stage::NamedTensor> parameters{{"weight", leaf(at::ones({3}))}};
    const auto optimizer = make_optimizer(type, "{lr: 0.1}", parameters);
    optimizer->zero_grad();
    optimizer->step();
    CHECK(parameters[0].tensor.equal(at::ones({3})));
  }
}

TEST_CASE("optimizers: a gradient with other strides than its parameter is an error") {
  const at::Tensor weight = leaf(at::ones({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast));
  const auto optimizer = make_optimizer("adam", "{}", {{"conv.weight", weight}});
  weight.mutable_grad() = at::ones({2, 3, 4, 4});
  CHECK_THROWS_WITH(optimizer->step(), Contains("'conv.weight'") && Contains("and [48, 16, 4, 1]"));
  weight.mutable_grad() = at::ones({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  CHECK_NOTHROW(optimizer->step());
  CHECK(weight.lt(1).all().item<bool>());
}

TEST_CASE("optimizers: strides of dimensions of size 1 may differ") {
  const at::Tensor weight = leaf(at::ones({6, 1, 5, 5}));
  const auto optimizer = make_optimizer("sgd", "{lr: 1}", {{"conv1.weight", weight}});
  const at::Tensor gradient = at::ones({150}).as_strided({6, 1, 5, 5}, {25, 1, 5, 1});
  weight.mutable_grad() = gradient;
  optimizer->step();
  CHECK(weight.equal(at::zeros({6, 1, 5, 5})));
}

TEST_CASE("optimizers: channels-last parameters get the updates of contiguous ones") {
  const at::Tensor start = at::randn({4, 3, 2, 2});
  const at::Tensor gradient = at::randn({4, 3, 2, 2});
  const at::Tensor plain = leaf(start);
  const at::Tensor last = leaf(start.contiguous(at::MemoryFormat::ChannelsLast));
  const auto one = make_optimizer("adamw", "{lr: 0.1}", {{"w", plain}});
  const auto other = make_optimizer("adamw", "{lr: 0.1}", {{"w", last}});
  plain.mutable_grad() = gradient;
  last.mutable_grad() = gradient.contiguous(at::MemoryFormat::ChannelsLast);
  for (int i = 0; i < 3; ++i) {
    one->step();
    other->step();
  }
  CHECK(mismatch(last.detach(), plain.detach()) == "");
}

TEST_CASE("zero_grad: gradients are cleared in place, and views into a bucket stay views") {
  at::Tensor bucket = at::ones({6});
  const at::Tensor weight = leaf(at::ones({2, 3}));
  const auto optimizer = make_optimizer("adam", "{}", {{"weight", weight}});
  weight.mutable_grad() = bucket.view({2, 3});
  optimizer->zero_grad();
  CHECK(bucket.equal(at::zeros({6})));
  bucket.fill_(1);
  CHECK(weight.grad().equal(at::ones({2, 3})));
}

TEST_CASE("optimizers: a step keeps no references to gradients") {
  for (const std::string& type : stages::builtin_catalog().optimizers.names()) {
    INFO(type);
    const at::Tensor weight = leaf(at::ones({2, 3}));
    const at::Tensor bias = leaf(at::ones({3}));
    const auto optimizer = make_optimizer(type, "{}", {{"weight", weight}, {"bias", bias}});
    for (int step = 0; step < 2; ++step) {
      weight.mutable_grad() = at::ones({2, 3});
      bias.mutable_grad() = at::ones({3});
      optimizer->step();
      CHECK(weight.grad().use_count() == 1);
      CHECK(bias.grad().use_count() == 1);
    }
  }
}

TEST_CASE("optimizers: parameters of different dtypes are updated together") {
  const std::vector<stage::NamedTensor> parameters{{"single", leaf(at::ones({3}))},
                                                   {"double", leaf(at::ones({3}, at::kDouble))},
                                                   {"last", leaf(at::ones({2}))}};
  const auto optimizer = make_optimizer("sgd", "{lr: 0.5}", parameters);
  for (const auto& [name, parameter] : parameters)
    parameter.mutable_grad() = at::ones_like(parameter);
  optimizer->step();
  optimizer->set_lr(0.25);
  optimizer->step();
  for (const auto& [name, parameter] : parameters)
    CHECK(parameter.equal(at::full_like(parameter, 0.25)));
}

TEST_CASE("optimizers: initial_lr() is the configured rate") {
  CHECK(make_optimizer("sgd", "{lr: 0.3}", {{"w", leaf(at::ones({1}))}})->initial_lr() == 0.3);
  CHECK(make_optimizer("adamw", "{}", {{"w", leaf(at::ones({1}))}})->initial_lr() == 1e-3);
}

TEST_CASE("optimizers: no parameters, or nesterov without momentum, is an error") {
  CHECK_THROWS_WITH(make_optimizer("adam", "{}", {}),
                    "optimizer 'adam': there is nothing to train: every parameter is frozen");
  CHECK_THROWS_WITH(
      make_optimizer("sgd", "{nesterov: true}", {{"w", leaf(at::ones({1}))}}),
      Contains("nesterov needs momentum above 0 and dampening 0, got momentum 0 and dampening 0"));
}

TEST_CASE("lamb: parameters exempt from weight decay get Adam's steps") {
  const auto bias_after = [](const std::string& more) {
    const at::Tensor bias = leaf(at::full({3}, 5.0));
    const auto optimizer = make_optimizer("lamb", "{lr: 0.1, " + more + "}", {{"fc.bias", bias}});
    bias.mutable_grad() = at::ones({3});
    optimizer->step();
    return bias[0].item<double>();
  };
  CHECK(bias_after("weight_decay: 0.1, no_weight_decay_on: [bias]") == Approx(5 - 0.1));
  CHECK(bias_after("weight_decay: 0.1, no_weight_decay_on: [bias], always_adapt: true") ==
        Approx(5 - 0.1 * 5));
  CHECK(bias_after("weight_decay: 0") == Approx(5 - 0.1 * 5));
}
