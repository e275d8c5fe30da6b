#include "stage/checkpoint.hpp"

#include "stage/forward_context.hpp"
#include "stage/module.hpp"
#include "support/catch.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

using namespace trainctl;

namespace {

/// A model of two blocks with dropout.
class Net final : public stage::Module {
 public:
  Net() {
    at::manual_seed(3);
    for (int i = 0; i < 3; ++i)
      weights_.push_back(add_parameter("w" + std::to_string(i), at::randn({6, 6})));
  }
  at::Tensor forward(const at::Tensor& inputs) override {
    at::Tensor x = at::linear(inputs, weights_[0]);
    for (std::size_t i = 1; i < weights_.size(); ++i) {
      x = checkpointed(
          [this, i](const at::Tensor& in) {
            ++(stage::is_recomputing() ? again : first);
            return at::dropout(at::linear(in, weights_[i]).tanh(), 0.5, true) + in;
          },
          x);
    }
    return x;
  }
  int first = 0;
  int again = 0;

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  std::vector<at::Tensor> weights_;
};

struct Outcome {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
  at::Tensor next_draw;
};

Outcome run(Net& net) {
  at::manual_seed(5);
  const at::Tensor inputs = at::randn({4, 6});
  Outcome outcome;
  outcome.output = net.forward(inputs);
  outcome.output.square().sum().backward();
  for (const auto& [name, parameter] : net.parameters())
    outcome.gradients.push_back(parameter.grad());
  outcome.next_draw = at::randn({3});
  return outcome;
}

void check_equal(const Outcome& a, const Outcome& b) {
  CHECK(a.output.equal(b.output));
  for (std::size_t i = 0; i < a.gradients.size(); ++i) CHECK(a.gradients[i].equal(b.gradients[i]));
  CHECK(a.next_draw.equal(b.next_draw));
}

}  // namespace

TEST_CASE("activation checkpointing: outputs, gradients and random draws are unchanged") {
  Net plain;
  Net saving;
  CHECK(saving.checkpoint_activations());
  check_equal(run(saving), run(plain));
  CHECK(saving.first == 2);
  CHECK(saving.again == 2);
  CHECK(plain.again == 0);
}

TEST_CASE("activation checkpointing: gradients under autocast are unchanged") {
  const auto mixed = [](Net& net) {
    at::manual_seed(5);
    at::Tensor loss;
    {
      const stage::Autocast scope(at::kCPU, at::kBFloat16);
      loss = net.forward(at::randn({4, 6})).to(at::kFloat).square().sum();
    }
    loss.backward();
    return net.parameters()[1].tensor.grad();
  };
  Net plain;
  Net saving;
  saving.checkpoint_activations();
  CHECK(mixed(saving).equal(mixed(plain)));
}

TEST_CASE("activation checkpointing: nothing is recomputed in evaluation or without gradients") {
  Net net;
  net.checkpoint_activations();
  net.set_mode(stage::RunMode::evaluate);
  net.forward(at::ones({1, 6})).sum().backward();
  CHECK(net.again == 0);
  net.set_mode(stage::RunMode::train);
  const at::NoGradGuard guard;
  net.forward(at::ones({1, 6}));
  CHECK(net.again == 0);
}
