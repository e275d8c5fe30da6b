#include "stages/model/blocks/fused_blocks.hpp"

#include "device/kernels.hpp"
#include "stage/forward_context.hpp"
#include "stages/builtin.hpp"
#include "stages/loss/fused_entropy.hpp"
#include "stages/model/blocks/transformer_blocks.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

using namespace trainctl;

// Tests the CPU implementations, which share the arithmetic of the kernels; the cases [gpu] compare
// the kernels with them.

namespace {

using Tensors = std::vector<at::Tensor>;

/// Returns results and gradients of a function of tensors. The weights of the results differ, so
/// that no gradient is lost.
template <class Call>
Tensors with_gradients(const Tensors& inputs, Call call) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().clone().requires_grad_());
  Tensors all = call(leaves);
  at::Tensor total = at::zeros({}, inputs[0].options().dtype(at::kFloat));
  for (const at::Tensor& result : all) {
    const at::Tensor flat = result.to(at::kFloat).flatten();
    total = total + (flat * at::arange(flat.numel(), flat.options()).sin()).sum();
  }
  total.backward();
  for (at::Tensor& result : all) result = result.detach();
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

Tensors on(at::Device device, const Tensors& all) {
  Tensors moved;
  for (const at::Tensor& tensor : all) moved.push_back(tensor.to(device));
  return moved;
}

void check_close(const Tensors& found, const Tensors& expected, const Tolerance& tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("tensor " << i);
    CHECK(mismatch(found[i].cpu().to(at::kFloat), expected[i].cpu().to(at::kFloat), tolerance) ==
          "");
  }
}

Tolerance tolerance_of(at::ScalarType type) {
  if (type == at::kFloat) return {.relative = 1e-4, .absolute = 1e-4};
  return {.relative = 2e-2, .absolute = 2e-2};
}

/// Inputs of a layer norm after a branch of this type: x, branch, weight, bias.
Tensors norm_inputs(std::int64_t rows, std::int64_t width, at::ScalarType type) {
  return {at::randn({rows, width}) + 1, at::randn({rows, width}).to(type), at::rand({width}) + 0.5,
          at::randn({width})};
}

Tensors fused_norm(const Tensors& inputs, at::ScalarType type) {
  return with_gradients(inputs, [&](const Tensors& x) {
    const auto [sum, normed] = stages::fused_add_norm({x[2], x[3], 1e-5}, {x[0], x[1]}, type);
    CHECK(normed.scalar_type() == type);
    return Tensors{sum, normed};
  });
}

Tensors norm_by_torch(const Tensors& inputs) {
  return with_gradients(inputs, [](const Tensors& x) {
    const at::Tensor sum = x[0] + x[1];
    return Tensors{sum, at::layer_norm(sum, x[2].sizes(), x[2], x[3], 1e-5)};
  });
}

Tensors fused_gelu(const Tensors& inputs, stages::Gelu kind) {
  return with_gradients(
      inputs, [&](const Tensors& x) { return Tensors{stages::fused_bias_gelu(x[0], x[1], kind)}; });
}

Tensors gelu_by_torch(const Tensors& inputs, stages::Gelu kind) {
  return with_gradients(inputs, [&](const Tensors& x) {
    const at::Tensor sum = x[0].to(at::kFloat) + x[1];
    return Tensors{at::gelu(sum, kind == stages::Gelu::tanh ? "tanh" : "none")};
  });
}

thread_local std::vector<const void*> factors_seen;

/// Records where the first factors of this thread's matrix products are in memory.
class FactorAddresses {
 public:
  FactorAddresses()
      : callback_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&on_operator).needsInputs(true))) {
    factors_seen.clear();
  }
  ~FactorAddresses() { at::removeCallback(callback_); }
  FactorAddresses(const FactorAddresses&) = delete;
  FactorAddresses& operator=(const FactorAddresses&) = delete;
  [[nodiscard]] bool contain(const void* address) const {
    return std::ranges::find(factors_seen, address) != factors_seen.end();
  }

 private:
  static std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
    if (std::string_view(function.name()) == "aten::mm")
      factors_seen.push_back(function.inputs()[0].toTensor().const_data_ptr());
    return nullptr;
  }

  at::CallbackHandle callback_;
};

bool has_gpu_kernels() { return at::globalContext().hasCUDA() && device::kernels_built(); }

const std::vector<at::ScalarType> kTypes{at::kFloat, at::kBFloat16, at::kHalf};

}  // namespace

TEST_CASE("fused_add_norm: sum, norm and gradients equal PyTorch's") {
  at::manual_seed(1);
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t width : {4, 12, 128, 768, 1600}) {
      for (const std::int64_t rows : {1, 5}) {
        INFO(rows << " rows of " << width << ", " << type);
        const Tensors inputs = norm_inputs(rows, width, type);
        check_close(fused_norm(inputs, type), norm_by_torch(inputs), tolerance_of(type));
      }
    }
  }
}

TEST_CASE("fused_add_norm: gradients of weight and bias add more rows than there are parts") {
  at::manual_seed(2);
  const Tensors inputs = norm_inputs(device::kMaxParts + 7, 8, at::kFloat);
  check_close(fused_norm(inputs, at::kFloat), norm_by_torch(inputs),
              {.relative = 1e-4, .absolute = 1e-3});
}

TEST_CASE("fused_add_norm: a large mean does not cancel the variance") {
  at::manual_seed(3);
  Tensors inputs = norm_inputs(3, 64, at::kFloat);
  inputs[0] = inputs[0] + 1e4;
  check_close(fused_norm(inputs, at::kFloat), norm_by_torch(inputs),
              {.relative = 1e-3, .absolute = 2e-3});
}

TEST_CASE("fused_add_norm: without a branch, x gets the gradients of both results") {
  at::manual_seed(4);
  const Tensors inputs{at::randn({2, 3, 16}), at::rand({16}), at::randn({16})};
  const Tensors found = with_gradients(inputs, [](const Tensors& x) {
    const auto [sum, normed] = stages::fused_add_norm({x[1], x[2], 1e-6}, {x[0]}, at::kFloat);
    return Tensors{sum * 2, normed};
  });
  const Tensors expected = with_gradients(inputs, [](const Tensors& x) {
    return Tensors{x[0] * 2, at::layer_norm(x[0], x[1].sizes(), x[1], x[2], 1e-6)};
  });
  check_close(found, expected, tolerance_of(at::kFloat));
}

TEST_CASE("fused_add_norm: a result that is not used has no gradient") {
  at::manual_seed(5);
  const Tensors inputs = norm_inputs(4, 8, at::kBFloat16);
  for (const bool uses_sum : {true, false}) {
    const auto part = [&](const at::Tensor& sum, const at::Tensor& normed) {
      return Tensors{uses_sum ? sum : normed};
    };
    Tensors leaves = on(at::kCPU, inputs);
    const Tensors found = with_gradients({inputs[0], inputs[1]}, [&](const Tensors& x) {
      const auto all =
          stages::fused_add_norm({inputs[2], inputs[3], 1e-5}, {x[0], x[1]}, at::kBFloat16);
      return part(all.sum, all.normed);
    });
    const Tensors expected = with_gradients({inputs[0], inputs[1]}, [&](const Tensors& x) {
      const at::Tensor sum = x[0] + x[1];
      return part(sum, at::layer_norm(sum, inputs[2].sizes(), inputs[2], inputs[3], 1e-5));
    });
    check_close(found, expected, tolerance_of(at::kBFloat16));
  }
}

TEST_CASE("fused_bias_gelu: values and gradients equal PyTorch's for both kinds") {
  at::manual_seed(6);
  for (const at::ScalarType type : kTypes) {
    for (const stages::Gelu kind : {stages::Gelu::tanh, stages::Gelu::erf}) {
      for (const std::int64_t width : {8, 40, 512}) {
        INFO(width << " columns of " << type);
        const Tensors inputs{(at::randn({3, 5, width}) * 3).to(type), at::randn({width})};
        check_close(fused_gelu(inputs, kind), gelu_by_torch(inputs, kind), tolerance_of(type));
      }
    }
  }
}

TEST_CASE("fused_bias_gelu: numbers far from 0 give 0 or themselves") {
  const at::Tensor x = torch::tensor({{-1e4F, -20.F, 0.F, 20.F, 1e4F, 1.F, -1.F, 3.F}});
  for (const stages::Gelu kind : {stages::Gelu::tanh, stages::Gelu::erf}) {
    const Tensors found = fused_gelu({x, at::zeros({8})}, kind);
    check_close(found, gelu_by_torch({x, at::zeros({8})}, kind), tolerance_of(at::kFloat));
    CHECK(found[1].isfinite().all().item<bool>());
  }
}

TEST_CASE("padded_linear: result and gradients equal PyTorch's, and the loss copies nothing") {
  at::manual_seed(11);
  const Tensors inputs{at::randn({2, 3, 12}), at::randn({11, 12})};
  const Tensors found = with_gradients(inputs, [](const Tensors& x) {
    return Tensors{stages::padded_linear(x[0], x[1], at::kFloat)};
  });
  const Tensors expected =
      with_gradients(inputs, [](const Tensors& x) { return Tensors{at::linear(x[0], x[1])}; });
  check_close(found, expected, tolerance_of(at::kFloat));
  CHECK(found[0].stride(1) == 16);
  const at::Tensor classes = at::randint(11, {6}, at::kLong);
  std::optional<std::int64_t> stride;
  const void* memory = nullptr;
  const FactorAddresses factors;
  const Tensors fused = with_gradients(inputs, [&](const Tensors& x) {
    const at::Tensor logits = stages::padded_linear(x[0], x[1], at::kFloat).flatten(0, 1);
    logits.register_hook([&](const at::Tensor& gradient) {
      stride = gradient.stride(0);
      memory = gradient.const_data_ptr();
    });
    return Tensors{stages::fused_entropy(logits, {classes}, {})};
  });
  const Tensors plain = with_gradients(inputs, [&](const Tensors& x) {
    return Tensors{at::cross_entropy_loss(at::linear(x[0], x[1]).flatten(0, 1), classes)};
  });
  check_close(fused, plain, tolerance_of(at::kFloat));
  CHECK(stride == 16);
  CHECK(factors.contain(memory));
}

TEST_CASE("pad_columns: writes only into memory that no other tensor sees") {
  at::Tensor own = at::ones({3, 16}).narrow(1, 0, 11);
  const void* memory = own.const_data_ptr();
  own = own.view({3, 1, 11}).view({3, 11});  // as the backward pass of views does
  const at::Tensor padded = stages::pad_columns(own, 16);
  CHECK(padded.const_data_ptr() == memory);
  CHECK(padded.narrow(1, 0, 11).eq(1).all().item<bool>());
  CHECK(padded.narrow(1, 11, 5).eq(0).all().item<bool>());
  const at::Tensor whole = at::ones({3, 16});
  const at::Tensor copy = stages::pad_columns(whole.narrow(1, 0, 11), 16);
  CHECK(at::equal(copy, padded));
  CHECK(whole.eq(1).all().item<bool>());
  const std::vector<at::Tensor> parts = at::ones({3, 16}).split_with_sizes({11, 5}, 1);
  CHECK(at::equal(stages::pad_columns(parts[0], 16), padded));
  CHECK(parts[1].eq(1).all().item<bool>());
}

TEST_CASE("padded_linear: a gradient that is part of another tensor leaves it unchanged") {
  at::manual_seed(12);
  const Tensors inputs{at::randn({6, 12}), at::randn({11, 12}), at::randn({6, 5})};
  const auto join = [](const at::Tensor& logits, const at::Tensor& other) {
    return Tensors{at::cat({logits, other}, 1)};
  };
  const Tensors found = with_gradients(inputs, [&](const Tensors& x) {
    return join(stages::padded_linear(x[0], x[1], at::kFloat), x[2]);
  });
  const Tensors expected =
      with_gradients(inputs, [&](const Tensors& x) { return join(at::linear(x[0], x[1]), x[2]); });
  check_close(found, expected, tolerance_of(at::kFloat));
}

TEST_CASE("output_layer: a CPU pads nothing") {
  const at::Tensor x = at::randn({2, 3, 4});
  CHECK(stages::output_layer(x, at::randn({11, 4})).is_contiguous());
}

TEST_CASE("fused blocks: a second derivative is an error") {
  const at::Tensor x = at::randn({2, 8}).requires_grad_();
  const at::Tensor bias = at::zeros({8});
  const auto [sum, normed] = stages::fused_add_norm({bias + 1, bias, 1e-5}, {x}, at::kFloat);
  for (const at::Tensor& result : {normed, stages::fused_bias_gelu(x, bias, stages::Gelu::erf)}) {
    CHECK_THROWS_WITH(torch::autograd::grad({result.sum()}, {x}, {}, true, /*create_graph=*/true),
                      Contains("no second derivative"));
  }
}

TEST_CASE("fused blocks: CPU tensors use PyTorch's operators instead") {
  const at::Tensor x = at::randn({2, 8});
  CHECK_FALSE(stages::fuses_add_norm({at::ones({8}), at::zeros({8})}, {x}, at::kFloat));
  CHECK_FALSE(stages::fuses_bias_gelu(x, at::zeros({8})));
}

TEST_CASE("fused blocks: without a CUDA compiler the kernels report why they are missing") {
  if (device::kernels_built()) skip("this build has kernels");
  CHECK_THAT(device::launch_add_norm({}, nullptr), Contains("no CUDA compiler was found"));
  CHECK_THAT(device::launch_add_norm_backward({}, nullptr), Contains("no CUDA compiler"));
  CHECK_THAT(device::launch_bias_gelu({}, nullptr), Contains("no CUDA compiler was found"));
  CHECK_THAT(device::launch_average_weights({}, nullptr), Contains("no CUDA compiler"));
}

TEST_CASE("traffic: counts the tensors that a launch reads and writes") {
  float number = 0;
  device::AddNorm norm;
  norm.rows = 10;
  norm.width = 8;
  norm.type = device::Element::bfloat16;
  CHECK(device::traffic(norm) == 10 * 8 * (4 + 2));
  norm.branch = &number;
  CHECK(device::traffic(norm) == 10 * 8 * (4 + 2 + 4 + 2));
  device::AddNormBackward back;
  back.rows = 10;
  back.width = 8;
  CHECK(device::traffic(back) == 10 * 8 * 12 + 10 * 2 * 8 * 8);
  device::BiasGelu gelu;
  gelu.rows = 10;
  gelu.width = 8;
  CHECK(device::traffic(gelu) == 10 * 8 * 8);
  CHECK(device::average_traffic(5) == 60);
}

TEST_CASE("self_attention: the gradient of queries, keys and values is contiguous") {
  at::manual_seed(7);
  const at::Tensor qkv = at::randn({2, 6, 24}).requires_grad_();
  at::Tensor gradient;
  qkv.register_hook([&](const at::Tensor& found) { gradient = found; });
  stages::self_attention(qkv, {.heads = 2, .mask = stages::Mask::causal}).pow(2).sum().backward();
  CHECK(gradient.is_contiguous());
}

TEST_CASE("fused_add_norm: the GPU kernels match the CPU and are deterministic", "[gpu][kernels]") {
  if (!has_gpu_kernels()) skip("no GPU, or no kernels");
  at::manual_seed(8);
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t width : {4, 128, 768, 1028, 1600, 4096}) {
      for (const std::int64_t rows : {1, 5, 1000}) {
        INFO(rows << " rows of " << width << ", " << type);
        const Tensors inputs = norm_inputs(rows, width, type);
        const Tensors found = fused_norm(on(at::kCUDA, inputs), type);
        check_close(found, fused_norm(inputs, type),
                    {.relative = tolerance_of(type).relative, .absolute = 2e-2});
        const Tensors again = fused_norm(on(at::kCUDA, inputs), type);
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(at::equal(found[i], again[i]));
      }
    }
  }
}

TEST_CASE("fused_bias_gelu: the GPU kernels match the CPU and are deterministic",
          "[gpu][kernels]") {
  if (!has_gpu_kernels()) skip("no GPU, or no kernels");
  at::manual_seed(9);
  for (const at::ScalarType type : kTypes) {
    for (const stages::Gelu kind : {stages::Gelu::tanh, stages::Gelu::erf}) {
      for (const std::int64_t width : {8, 264, 3072}) {
        for (const std::int64_t rows : {1, 7, 1000}) {
          INFO(rows << " rows of " << width << ", " << type);
          const Tensors inputs{(at::randn({rows, width}) * 3).to(type), at::randn({width})};
          const Tensors found = fused_gelu(on(at::kCUDA, inputs), kind);
          check_close(found, fused_gelu(inputs, kind),
                      {.relative = tolerance_of(type).relative, .absolute = 2e-2});
          const Tensors again = fused_gelu(on(at::kCUDA, inputs), kind);
          for (std::size_t i = 0; i < found.size(); ++i) CHECK(at::equal(found[i], again[i]));
        }
      }
    }
  }
}

TEST_CASE("transformers: a GPU with fused kernels gives the gradients of the CPU",
          "[gpu][kernels]") {
  if (!has_gpu_kernels()) skip("no GPU, or no kernels");
  struct Network {
    std::string type, options;
    stage::ModelContext context;
  };
  for (const auto& [type, options, context] :
       {Network{"gpt",
                "{layers: 2, heads: 2, width: 32, context: 8}",
                {{8}, 16, {spec::Inputs::tokens, spec::Targets::tokens}}},
        Network{"gpt",
                "{layers: 1, heads: 2, width: 32, context: 8}",
                {{8}, 19, {spec::Inputs::tokens, spec::Targets::tokens}}},
        Network{"vit_tiny", "{patch_size: 8}", {{3, 32, 32}, 10}}}) {
    const auto gradients = [&](at::Device device, std::optional<at::ScalarType> autocast) {
      at::manual_seed(10);
      const auto model = stages::builtin_catalog().models.build(
          stages_test::stage("model", type, options), context);
      model->to(device);
      model->set_mode(stage::RunMode::evaluate);
      const at::Tensor inputs =
          type == "gpt" ? at::arange(16).view({2, 8}) : at::randn({2, 3, 32, 32});
      const stage::Autocast scope(device.type(), autocast.value_or(at::kBFloat16),
                                  autocast.has_value());
      const at::Tensor logits = model->forward(inputs.to(device)).to(at::kFloat);
      logits.log_softmax(-1).select(-1, 0).sum().backward();
      Tensors all{logits.detach()};
      for (const auto& [name, parameter] : model->parameters()) all.push_back(parameter.grad());
      return all;
    };
    INFO(type);
    at::globalContext().setAllowTF32CuDNN(false);
    const Tensors expected = gradients(at::kCPU, std::nullopt);
    const Tensors found = gradients(at::kCUDA, std::nullopt);
    const Tensors narrow = gradients(at::kCUDA, at::kBFloat16);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("tensor " << i);
      CHECK(mismatch(found[i].cpu(), expected[i], share_of_largest(expected[i], 1e-3)) == "");
      CHECK(mismatch(narrow[i].cpu(), expected[i], share_of_largest(expected[i], 0.1)) == "");
    }
  }
}

TEST_CASE("self_attention: a GPU selects flash attention in 16 bits", "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  const at::Tensor qkv = at::randn({2, 64, 192}, at::TensorOptions(at::kCUDA)).to(at::kBFloat16);
  std::vector<at::Tensor> parts = qkv.split(64, 2);
  for (at::Tensor& part : parts) part = part.view({2, 64, 2, 32}).transpose(1, 2);
  const auto choice = static_cast<at::SDPBackend>(
      at::_fused_sdp_choice(parts[0], parts[1], parts[2], {}, 0, /*is_causal=*/true));
  const bool fused =
      choice == at::SDPBackend::flash_attention || choice == at::SDPBackend::cudnn_attention;
  CHECK(fused);
}
