#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "train/measure/resource_counters.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <functional>
#include <utility>

using namespace trainctl;

namespace {

std::int64_t counted(const std::function<void()>& body) {
  const train::FlopCounter counter;
  body();
  return counter.count();
}

at::Tensor leaf(at::IntArrayRef shape) { return at::randn(shape).requires_grad_(); }

}  // namespace

TEST_CASE("FlopCounter: a multiply-add counts as two operations, element-wise operators as none") {
  const at::Tensor x = at::randn({5, 3});
  CHECK(counted([&] { (void)at::linear(x, at::randn({7, 3}), at::randn({7})); }) == 2 * 5 * 3 * 7);
  CHECK(counted([&] {
          (void)at::matmul(at::randn({4, 5, 3}), at::randn({4, 3, 2}));
        }) == 2 * 4 * 5 * 3 * 2);
  CHECK(counted([&] { (void)at::relu(x).mul(x).sum(); }) == 0);
}

TEST_CASE("FlopCounter: the backward pass counts one product per required gradient") {
  const at::Tensor x = leaf({5, 3});
  const at::Tensor weight = leaf({7, 3});
  const std::int64_t product = 2 * 5 * 3 * 7;
  CHECK(counted([&] { at::linear(x, weight).sum().backward(); }) == 3 * product);
  CHECK(counted([&] { at::linear(x.detach(), weight).sum().backward(); }) == 2 * product);
}

TEST_CASE("FlopCounter: a convolution counts its filter at each output position, per group") {
  const at::Tensor x = leaf({2, 4, 9, 8});
  const at::Tensor weight = leaf({6, 2, 3, 3});
  const auto forward = [&] {
    return at::conv2d(x, weight, {}, {2, 1}, {1, 0}, {1, 2}, /*groups=*/2);
  };
  const std::int64_t places = 2 * 5 * 4;  // (9 + 2 - 3) / 2 + 1 and (8 - 5) / 1 + 1
  const std::int64_t flops = 2 * places * 6 * 2 * 3 * 3;
  CHECK(counted([&] { (void)forward(); }) == flops);
  CHECK(counted([&] { forward().sum().backward(); }) == 3 * flops);
  const at::Tensor up = leaf({4, 5, 2, 2});
  const std::int64_t transposed = 2 * (2 * 9 * 8) * 4 * 5 * 2 * 2;
  CHECK(counted([&] { (void)at::conv_transpose2d(x, up, {}, /*stride=*/2); }) == transposed);
  CHECK(counted([&] { at::conv_transpose2d(x, up, {}, 2).sum().backward(); }) == 3 * transposed);
}

TEST_CASE("FlopCounter: convolutions with outputs of at least 4x4 are counted separately") {
  const at::Tensor weight = at::randn({6, 4, 3, 3});
  const auto part = [&](const at::Tensor& x, at::IntArrayRef stride) {
    const train::FlopCounter counter;
    (void)at::linear(at::randn({5, 3}), at::randn({7, 3}));
    (void)at::conv2d(x, weight, {}, stride);
    const std::int64_t products = 2 * 5 * 3 * 7;
    const std::int64_t convolution = counter.count() - products;
    return std::pair(counter.image_convolutions(), convolution);
  };
  const auto whole = part(at::randn({1, 4, 6, 6}), {1, 1});
  CHECK(whole.first == 2 * 4 * 4 * 6 * 4 * 3 * 3);
  CHECK(whole.first == whole.second);
  const auto small = part(at::randn({1, 4, 6, 6}), {2, 1});  // an output of 2x4
  CHECK(small.first == 0);
  CHECK(small.second > 0);
}

TEST_CASE("FlopCounter: attention counts two forward products for every kernel") {
  const at::Tensor query = leaf({2, 3, 10, 8});
  const auto attend = [&](double dropout) {
    return at::scaled_dot_product_attention(query, query, query, {}, dropout, /*is_causal=*/true);
  };
  const std::int64_t product = 2 * 2 * 3 * 10 * 10 * 8;
  CHECK(counted([&] { (void)attend(0); }) == 2 * product);
  CHECK(counted([&] { (void)attend(0.5); }) == 2 * product);
  const std::int64_t step = counted([&] { attend(0).sum().backward(); });
  CHECK((step == 6 * product || step == 7 * product));  // the scores may be recomputed
}

TEST_CASE("FlopCounter: recurrent layers multiply each vector and each state by a weight") {
  const at::Tensor x = at::randn({3, 5, 8});
  const auto count = [&](const std::string& type, bool backward) {
    const auto layer = stages::builtin_catalog().layers.build(
        stages_test::stage("layer", type, "{hidden_size: 4, num_layers: 2, bidirectional: true}"),
        {{{5, 8}}});
    return counted([&] {
      const at::Tensor output = layer->forward(x);
      if (backward) output.sum().backward();
    });
  };
  const std::int64_t gate = 2 * (3 * 5) * 2 * (4 * (8 + 4) + 4 * (8 + 4));  // both directions
  CHECK(count("rnn", false) == gate);
  CHECK(count("gru", false) == 3 * gate);
  CHECK(count("lstm", false) == 4 * gate);
  // The gradient of the input of the network is not needed, and may not be counted.
  const std::int64_t step = count("lstm", true);
  CHECK(step <= 3 * 4 * gate);
  CHECK(step > 2 * 4 * gate);
}

TEST_CASE("FlopCounter: counting stops with the counter, and unexpected arguments count as none") {
  const at::Tensor x = at::randn({3, 3});
  CHECK(counted([&] { (void)at::matmul(x, x); }) == 54);
  (void)at::matmul(x, x);
  CHECK(counted([] {}) == 0);
  const std::vector<at::IValue> values{x, at::IValue(3)};
  const c10::ArrayRef<const at::IValue> odd(values.data(), values.size());
  CHECK(train::flops_of("aten::mm", odd) == 0);
  CHECK(train::flops_of("aten::convolution", odd) == 0);
  CHECK(train::flops_of("aten::convolution_backward", odd) == 0);
  CHECK(train::flops_of("aten::mkldnn_rnn_layer", odd) == 0);
  CHECK(train::flops_of("aten::_scaled_dot_product_flash_attention", odd) == 0);
  CHECK(train::flops_of("aten::mm", {}) == 0);
}

TEST_CASE("FlopCounter: the built-in models have the operations of PyTorch's FlopCounterMode") {
  const Json golden = stages_test::golden("flops");
  const std::int64_t rows = golden["rows"];
  const stage::Catalog catalog = stages::builtin_catalog();
  for (const Json& one : golden["cases"]) {
    CAPTURE(one["model"].get<std::string>());
    std::vector<std::int64_t> shape = stages_test::shape_of(one["input_shape"]);
    const auto model = catalog.models.build(
        stages_test::stage("model", one["model"], one["options"]), {shape, one["classes"]});
    model->set_mode(stage::RunMode::train);
    shape.insert(shape.begin(), rows);
    const at::Tensor inputs = at::randn(shape);
    CHECK(counted([&] { (void)model->forward(inputs); }) == one["forward"]);
    if (one["step"].is_null()) continue;
    CHECK(counted([&] { model->forward(inputs).sum().backward(); }) == one["step"]);
  }
}
