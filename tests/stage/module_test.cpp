#include "stage/module.hpp"

#include "support/catch.hpp"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

using namespace trainctl;

namespace {

class Probe final : public stage::Module {
 public:
  Probe()
      : weight_(add_parameter("weight", at::ones({2}))),
        mean_(add_buffer("mean", at::zeros({2}))) {}
  at::Tensor forward(const at::Tensor& x) override { return training() ? x * weight_ : x - mean_; }

 private:
  at::Tensor weight_, mean_;
};

}  // namespace

TEST_CASE("Module: lists its tensors by name, and only parameters require gradients") {
  const Probe probe;
  REQUIRE(probe.parameters().size() == 1);
  REQUIRE(probe.buffers().size() == 1);
  CHECK(probe.parameters()[0].name == "weight");
  CHECK(probe.parameters()[0].tensor.requires_grad());
  CHECK(probe.buffers()[0].name == "mean");
  CHECK_FALSE(probe.buffers()[0].tensor.requires_grad());
}

TEST_CASE("Module: is in training mode until set_mode() selects evaluation") {
  Probe probe;
  const at::Tensor x = at::ones({2});
  CHECK(probe.forward(x).requires_grad());
  probe.set_mode(stage::RunMode::evaluate);
  CHECK_FALSE(probe.forward(x).requires_grad());
  probe.set_mode(stage::RunMode::train);
  CHECK(probe.forward(x).requires_grad());
}

TEST_CASE("Module: to() keeps the identity of each tensor") {
  Probe probe;
  const at::Tensor before = probe.parameters()[0].tensor;
  probe.to(at::kCPU);
  CHECK(probe.parameters()[0].tensor.is_same(before));
  CHECK(before.requires_grad());
  CHECK(before.is_leaf());
}
