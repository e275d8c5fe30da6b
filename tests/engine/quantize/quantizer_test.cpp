#include "engine/quantize/quantizer.hpp"

#include "base/error.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cosine_similarity.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/jit/serialization/import.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace trainctl;
using engine::Int8Kind;
using engine::QuantizedLayer;
using engine::Quantizer;
using stages_test::make_model;
using stages_test::ramp;
using stages_test::tensor;

namespace {

/// Gives batch norms the running averages of tests/golden/make/quantized.py.
void set_averages(const stage::Model& model) {
  for (const auto& [name, buffer] : model.buffers()) {
    const at::Tensor index = at::arange(buffer.numel(), at::kDouble);
    if (name.ends_with("running_mean")) buffer.copy_(index.sin().div(10));
    if (name.ends_with("running_var")) buffer.copy_(index.cos().div(2).add(1));
  }
}

std::vector<at::Tensor> calibration(const std::vector<std::int64_t>& shape) {
  return {ramp(shape), ramp(shape).mul(0.7).add(0.1), ramp(shape).mul(1.5).sub(0.2)};
}

torch::jit::Module load(const std::string& script) {
  std::istringstream file(script);
  return torch::jit::load(file, at::kCPU);
}

void check_params(const std::optional<engine::QuantizationParams>& found, const Json& expected) {
  REQUIRE(found.has_value());
  CHECK(found->scale == Approx(expected[0].get<double>()).epsilon(1e-5));
  CHECK(found->zero_point == expected[1].get<std::int64_t>());
}

void check_scales(const QuantizedLayer& layer, const Json& expected) {
  const at::Tensor scales = tensor(expected, at::kDouble);
  CHECK(mismatch(layer.weight_scales, scales, share_of_largest(scales, 1e-5)) == "");
}

/// Compares scales, zero points and outputs with those of torch.ao.quantization.
void check_case(const Json& one, const Json& golden) {
  const at::NoGradGuard guard;
  const auto shape = stages_test::shape_of(golden["input_shape"]);
  const stage::ModelContext context{shape, 3};
  at::manual_seed(golden["seed"]);
  const auto model = make_model("sequential", "{layers: " + one["layers"].dump() + "}", context);
  stages_test::perturb(*model);
  set_averages(*model);
  Quantizer quantizer(*model, context,
                      *enum_called<spec::Observer>(one["observer"].get<std::string>()));
  CHECK(quantizer.needs_calibration() == one.contains("input"));
  const std::vector<at::Tensor> batches = calibration(shape);
  const Tolerance close = share_of_largest(tensor(one["float32"]), 1e-5);
  CHECK(mismatch(quantizer.calibrate(batches[0]), tensor(one["float32"]), close) == "");
  for (std::size_t i = 1; i < batches.size(); ++i) quantizer.calibrate(batches[i]);

  std::size_t convolutions = 0;
  std::size_t linear = 0;
  for (const QuantizedLayer& layer : quantizer.layers()) {
    if (layer.kind == Int8Kind::linear) {
      check_scales(layer, one["linear"][linear++]);
      continue;
    }
    CHECK(layer.kind == Int8Kind::convolution);
    const Json& expected = one["convolutions"][convolutions];
    if (convolutions++ == 0) check_params(layer.input, one["input"]);
    check_params(layer.output, expected["output"]);
    check_scales(layer, expected["weight"]);
  }
  CHECK(linear == one["linear"].size());
  CHECK(quantizer.weights() == static_cast<std::int64_t>(convolutions + linear));
  torch::jit::Module script = load(quantizer.script());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    // A number at the border of two int8 values may be rounded to the other one.
    const at::Tensor outputs = tensor(one["outputs"][i]);
    const at::Tensor found = script.forward({batches[i]}).toTensor();
    CHECK(mismatch(found, outputs, share_of_largest(outputs, 0.02)) == "");
  }
}

}  // namespace

TEST_CASE("Quantizer: scales, zero points and outputs equal those of torch.ao.quantization") {
  const Json golden = stages_test::golden("quantized");
  for (const Json& one : golden["cases"]) {
    INFO(one["name"] << " " << one["observer"]);
    check_case(one, golden);
  }
}

TEST_CASE("quantize: outputs, gradients and ranges in training equal those of prepare_qat") {
  const Json golden = stages_test::golden("quantized");
  const Json& one = golden["trained"][0];
  const auto shape = stages_test::shape_of(golden["input_shape"]);
  const stage::ModelContext context{shape, 3};
  const auto seeded = [&](const char* quantize) {
    const at::NoGradGuard guard;
    at::manual_seed(golden["seed"]);
    auto made =
        make_model("sequential",
                   "{layers: " + one["layers"].dump() + ", quantize: " + quantize + "}", context);
    stages_test::perturb(*made);
    set_averages(*made);
    return made;
  };
  const auto model = seeded("int8");
  const auto plain = seeded("none");
  // An activation at the border of two int8 values may be rounded to the other one.
  const auto close = [](const at::Tensor& found, const Json& numbers, double share = 0.02) {
    const at::Tensor expected = tensor(numbers);
    return mismatch(found.to(at::kFloat), expected, share_of_largest(expected, share));
  };
  at::Tensor output;
  std::size_t batch = 0;
  for (const at::Tensor& inputs : calibration(shape)) {
    output = model->forward(inputs);
    constexpr double kShare = 5e-4;  // which a model that rounds nothing exceeds
    CHECK(close(output.detach(), one["outputs"][batch], kShare) == "");
    CHECK(close(plain->forward(inputs).detach(), one["outputs"][batch++], kShare) != "");
  }
  (output * ramp({3})).sum().backward();
  for (const auto& [name, parameter] : model->parameters()) {
    INFO(name);
    CHECK(close(parameter.grad(), one["gradients"][name]) == "");
  }
  std::size_t compared = 0;
  for (const auto& [name, buffer] : model->buffers()) {
    if (!one["buffers"].contains(name)) continue;
    INFO(name);
    CHECK(close(buffer, one["buffers"][name], 1e-3) == "");
    ++compared;
  }
  CHECK(compared == one["buffers"].size());

  model->set_mode(stage::RunMode::evaluate);
  const at::NoGradGuard guard;
  const at::Tensor evaluated = model->forward(ramp(shape));
  CHECK(close(evaluated, one["evaluated"]) == "");
  const Quantizer quantizer(*model, context, spec::Observer::histogram);
  CHECK_FALSE(quantizer.needs_calibration());  // training has found the ranges
  CHECK(quantizer.weights() == 4);
  const at::Tensor int8 = load(quantizer.script()).forward({ramp(shape)}).toTensor();
  CHECK(mismatch(int8, evaluated, share_of_largest(evaluated, 0.03)) == "");
}

TEST_CASE("quantize: residual and mobile networks learn their ranges, and int8 equals training") {
  struct Case {
    const char* type;
    const char* options;
    bool calibrates;  // squeeze-and-excitation is not rounded in training
  };
  const Case one =
      GENERATE(Case{"resnet_cifar", "{depth: 8, quantize: int8}", false},
               Case{"resnet18", "{quantize: int8}", false},
               Case{"mobilenet_v2", "{width_mult: 0.25, dropout: 0, quantize: int8}", false},
               Case{"mobilenet_v3_small", "{width_mult: 0.5, dropout: 0, quantize: int8}", true});
  INFO(one.type);
  const stage::ModelContext context{{3, 32, 32}, 7};
  at::manual_seed(3);
  const auto model = make_model(one.type, one.options, context);
  const at::Tensor inputs = at::randn({8, 3, 32, 32});
  for (int i = 0; i < 15; ++i) {  // all set the ranges; gradients need not be computed each time
    const bool learns = i % 5 == 0;
    const at::AutoGradMode guard(learns);
    const at::Tensor outputs = model->forward(inputs);
    if (!learns) continue;
    outputs.pow(2).sum().backward();
    for (const auto& [name, parameter] : model->parameters()) {
      INFO(name);
      REQUIRE(parameter.grad().isfinite().all().item<bool>());
      parameter.mutable_grad() = at::Tensor();
    }
  }
  const at::NoGradGuard guard;
  model->set_mode(stage::RunMode::evaluate);
  const at::Tensor expected = model->forward(inputs);
  Quantizer quantizer(*model, context, spec::Observer::min_max);
  CHECK(quantizer.needs_calibration() == one.calibrates);
  if (one.calibrates) quantizer.calibrate(inputs);
  const at::Tensor found = load(quantizer.script()).forward({inputs}).toTensor();
  const at::Tensor centered = expected - expected.mean();
  CHECK(at::cosine_similarity(centered.flatten(), (found - expected.mean()).flatten(), 0)
            .item<float>() > 0.97);
}

TEST_CASE("Quantizer: int8 models compute nearly the same as the float32 models") {
  struct Case {
    const char* type;
    const char* options;
    std::int64_t int8_weights;
  };
  const Case one = GENERATE(Case{"resnet_cifar", "{depth: 8}", 8}, Case{"resnet18", "{}", 21},
                            Case{"mobilenet_v2", "{width_mult: 0.25, dropout: 0}", 53},
                            Case{"mobilenet_v3_small", "{width_mult: 0.5, dropout: 0}", 54});
  INFO(one.type);
  const at::NoGradGuard guard;
  const stage::ModelContext context{{3, 32, 32}, 7};
  at::manual_seed(3);
  const auto model = make_model(one.type, one.options, context);
  const at::Tensor inputs = at::randn({8, 3, 32, 32});
  for (int i = 0; i < 20; ++i) model->forward(inputs);  // sets the averages of batch norms
  Quantizer quantizer(*model, context, spec::Observer::min_max);
  const at::Tensor expected = quantizer.calibrate(inputs);
  CHECK(quantizer.weights() == one.int8_weights);
  torch::jit::Module script = load(quantizer.script());
  const at::Tensor found = script.forward({inputs}).toTensor();
  REQUIRE(found.sizes() == expected.sizes());
  const at::Tensor centered = expected - expected.mean();
  CHECK(at::cosine_similarity(centered.flatten(), (found - expected.mean()).flatten(), 0)
            .item<float>() > 0.97);
  CHECK(script.forward({inputs.narrow(0, 0, 1)}).toTensor().size(0) == 1);
}

TEST_CASE("Quantizer: linear layers of a transformer need no calibration") {
  const at::NoGradGuard guard;
  const stage::ModelContext context{{3, 32, 32}, 7};
  at::manual_seed(3);
  const auto model = make_model("vit_tiny", "{patch_size: 16}", context);
  stages_test::perturb(*model);
  model->set_mode(stage::RunMode::evaluate);
  Quantizer quantizer(*model, context, spec::Observer::histogram);
  const at::Tensor inputs = at::randn({2, 3, 32, 32});
  const at::Tensor expected = quantizer.calibrate(inputs);
  const at::Tensor found = load(quantizer.script()).forward({inputs}).toTensor();
  CHECK(at::cosine_similarity(expected.flatten(), found.flatten(), 0).item<float>() > 0.99);
}

TEST_CASE("Quantizer: a model without int8 layers is an error that names the layers") {
  const stage::ModelContext context{{1, 4, 4}, 16};
  const auto model = make_model("sequential", "{layers: [tanh, flatten]}", context);
  CHECK_THROWS_WITH(Quantizer(*model, context, spec::Observer::histogram),
                    Contains("cannot quantize the model: it has no conv2d or linear layer"));
}

TEST_CASE("Quantizer: activations that are not finite are an error") {
  const at::NoGradGuard guard;
  const stage::ModelContext context{{1, 4, 4}, 3};
  const auto model = make_model(
      "sequential", "{layers: [{type: conv2d, out_channels: 2, kernel_size: 3}, flatten, linear]}",
      context);
  Quantizer quantizer(*model, context, spec::Observer::histogram);
  const at::Tensor inputs = at::randn({2, 1, 4, 4});
  inputs[1][0][2][3] = INFINITY;
  CHECK_THROWS_WITH(quantizer.calibrate(inputs), Contains("values that are not finite"));
}
