#include "spec/checks/checks.hpp"
#include "stage/forward_context.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

using namespace trainctl;

namespace {

/// Returns the losses of 8 steps from the same weights; the rate decreases after 4.
std::vector<double> losses(at::Device device, const std::string& optimizer_type,
                           const std::string& options) {
  const stage::Catalog all = stages::builtin_catalog();
  at::manual_seed(5);
  const at::Tensor inputs = at::randn({16, 1, 28, 28});
  const at::Tensor targets = at::randint(0, 10, {16}, at::kLong);
  const auto model = all.models.build(stages_test::stage("model", "lenet"), {{1, 28, 28}, 10});
  model->to(device);
  const auto loss = all.losses.build(
      stages_test::stage("loss", "cross_entropy", "{weight: [1, 2, 1, 1, 1, 1, 1, 1, 1, 1]}"),
      {10, device});
  const auto optimizer = all.optimizers.build(
      stages_test::stage("optimizer", optimizer_type, options), {model->parameters()});
  std::vector<double> values;
  for (int step = 0; step < 8; ++step) {
    const at::Tensor value =
        loss->forward(model->forward(inputs.to(device)), targets.to(device)).mean();
    optimizer->zero_grad();
    value.backward();
    optimizer->step();
    if (step == 3) optimizer->set_lr(optimizer->initial_lr() * 0.1);
    values.push_back(value.item<double>());
  }
  return values;
}

}  // namespace

TEST_CASE("optimizers: training losses on a GPU match those on a CPU", "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  at::globalContext().setAllowTF32CuDNN(false);
  struct Training {
    std::string type;
    std::string options;
    double tolerance = 1e-3;
  };
  for (const auto& [type, options, tolerance] :
       {Training{"sgd", "{lr: 0.1, momentum: 0.9, dampening: 0.1}"},
        Training{"adam", "{lr: 0.01, amsgrad: true}"}, Training{"adamw", "{lr: 0.01}"},
        Training{"nadam", "{lr: 0.01}"}, Training{"radam", "{lr: 0.01}"},
        Training{"lamb", "{lr: 0.01}"}, Training{"muon", "{lr: 0.01, ns_dtype: float32}"},
        // The iterations run in bfloat16, which has 8 bits and rounds differently on a GPU.
        Training{"muon", "{lr: 0.01}", 2e-2}}) {
    const std::vector<double> host = losses(at::kCPU, type, options);
    const std::vector<double> device = losses(at::kCUDA, type, options);
    for (std::size_t i = 0; i < host.size(); ++i) {
      INFO(type << " " << options << " step " << i);
      CHECK(device[i] == Approx(host[i]).epsilon(tolerance));
    }
  }
}

TEST_CASE("step_unless: a skipped step on a GPU changes neither weights nor state", "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  const auto flag = [](float bad) { return at::full({1}, bad, at::TensorOptions(at::kCUDA)); };
  const stage::Catalog all = stages::builtin_catalog();
  for (const std::string& type : all.optimizers.names()) {
    INFO(type);
    const at::Tensor weight = at::rand({8, 4}).cuda().requires_grad_(true);
    const std::vector<stage::NamedTensor> parameters{{"weight", weight}};
    const std::string momentum = type == "sgd" ? ", momentum: 0.9, dampening: 0.5" : "";
    const auto optimizer = all.optimizers.build(
        stages_test::stage("optimizer", type, "{lr: 0.1" + momentum + "}"), {parameters});
    const auto state = [&] {
      std::vector<at::Tensor> tensors{weight.detach().cpu()};
      for (const auto& [name, tensor] : optimizer->state()) tensors.push_back(tensor.cpu());
      return tensors;
    };
    for (int step = 0; step < 3; ++step) {
      const std::vector<at::Tensor> before = state();
      weight.mutable_grad() =
          at::full_like(weight.detach(), std::numeric_limits<double>::quiet_NaN());
      optimizer->step_unless(flag(1));
      const std::vector<at::Tensor> after = state();
      for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i].equal(before[i]));
      weight.mutable_grad() = at::full_like(weight.detach(), 0.5);
      optimizer->step_unless(flag(0));
      CHECK_FALSE(state().front().equal(before.front()));
    }
  }
}

TEST_CASE("models: moving to a GPU keeps each parameter's tensor object", "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  const auto model =
      stages::builtin_catalog().models.build(stages_test::stage("model", "mlp"), {{1, 28, 28}, 10});
  const auto before = model->parameters();
  model->to(at::kCUDA);
  for (std::size_t i = 0; i < before.size(); ++i) {
    CHECK(model->parameters()[i].tensor.is_same(before[i].tensor));
    CHECK(before[i].tensor.is_cuda());
    CHECK(before[i].tensor.is_leaf());
  }
}

TEST_CASE("metrics and losses: a GPU gives the CPU's values", "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  const stage::Catalog all = stages::builtin_catalog();
  const at::Tensor logits = at::randn({64, 10});
  const at::Tensor targets = at::randint(0, 10, {64}, at::kLong);
  for (const std::string type : {"accuracy", "top_k_accuracy"}) {
    const auto host = all.metrics.build(stages_test::stage("metric", type), {10, at::kCPU});
    const auto device = all.metrics.build(stages_test::stage("metric", type), {10, at::kCUDA});
    host->update(logits, targets);
    device->update(logits.cuda(), targets.cuda());
    CHECK(device->sums().is_cuda());
    CHECK(device->value() == host->value());
  }
  const stage::MixedTargets mixed{targets, targets.flip(0), at::rand({64})};
  const stage::MixedTargets moved{mixed.own.cuda(), mixed.partner.cuda(), mixed.lambda.cuda()};
  const auto build = [&](at::Device device) {
    return all.losses.build(stages_test::stage("loss", "cross_entropy"), {10, device});
  };
  CHECK(mismatch(build(at::kCUDA)->forward_mixed(logits.cuda(), moved).value.cpu(),
                 build(at::kCPU)->forward_mixed(logits, mixed).value) == "");
  const auto mse = all.losses.build(stages_test::stage("loss", "mse"), {10, at::kCUDA});
  CHECK(mismatch(mse->forward(logits.cuda(), targets.cuda()).value.cpu(),
                 mse->forward(logits, targets).value) == "");
}

TEST_CASE("convnets: logits on a GPU match the CPU's, also in channels last", "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  at::globalContext().setAllowTF32CuDNN(false);
  const stage::Catalog all = stages::builtin_catalog();
  const at::Tensor inputs = at::randn({4, 3, 64, 64});
  for (const std::string type : {"resnet18", "se_resnet50", "mobilenet_v2", "mobilenet_v3_small"}) {
    INFO(type);
    at::manual_seed(5);
    const auto model = all.models.build(stages_test::stage("model", type, "{}"), {{3, 64, 64}, 5});
    const auto evaluated = [&](const at::Tensor& x) {
      model->set_mode(stage::RunMode::evaluate);
      const at::Tensor logits = model->forward(x).detach().cpu();
      return at::Tensor(logits / logits.abs().max());
    };
    const at::Tensor host = evaluated(inputs);
    constexpr Tolerance kConvolutions{.relative = 1e-2};
    model->to(at::kCUDA);
    CHECK(mismatch(evaluated(inputs.cuda()), host, kConvolutions) == "");
    CHECK(mismatch(evaluated(inputs.cuda().contiguous(at::MemoryFormat::ChannelsLast)), host,
                   kConvolutions) == "");
    model->set_mode(stage::RunMode::train);
    model->forward(inputs.cuda()).sum().backward();
    for (const auto& [name, buffer] : model->buffers()) {
      CHECK(buffer.is_cuda());
      if (name.ends_with("num_batches_tracked")) CHECK(buffer.item<std::int64_t>() == 1);
    }
  }
}

namespace {

/// Skips the test without a GPU.
void require_determinism() {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/1);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
}

/// Returns the gradients of one batch on the GPU, always of the same weights and inputs.
std::vector<at::Tensor> gradients_of(const config::Stage& type,
                                     const stage::ModelContext& context) {
  at::manual_seed(5);
  const auto model = stages::builtin_catalog().models.build(type, context);
  model->to(at::kCUDA);
  model->set_mode(stage::RunMode::train);
  std::vector<std::int64_t> shape = context.input_shape;
  shape.insert(shape.begin(), 2);
  const at::Tensor inputs = context.kind.inputs == spec::Inputs::tokens
                                ? at::randint(0, context.outputs, shape, at::kLong)
                                : at::randn(shape);
  model->forward(inputs.cuda()).sum().backward();
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(0);
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : model->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

}  // namespace

TEST_CASE("deterministic: on a GPU, transformers repeat their gradients bit for bit", "[gpu]") {
  require_determinism();
  constexpr spec::SampleKind kText{spec::Inputs::tokens, spec::Targets::tokens};
  const bool is_mixed = GENERATE(false, true);
  std::optional<stage::Autocast> mixed;
  if (is_mixed) mixed.emplace(at::kCUDA, at::kBFloat16);
  for (const std::string type : {"gpt", "vit_tiny"}) {
    CAPTURE(type, is_mixed);
    const bool text = type == "gpt";
    const config::Stage model = stages_test::stage(
        "model", type,
        text ? "{layers: 2, heads: 4, width: 64, context: 64, dropout: 0.1}" : "{patch_size: 8}");
    const stage::ModelContext context =
        text ? stage::ModelContext{{64}, 50, kText} : stage::ModelContext{{3, 64, 64}, 5};
    std::vector<at::Tensor> once, again;
    CHECK_NOTHROW(once = gradients_of(model, context));
    CHECK_NOTHROW(again = gradients_of(model, context));
    REQUIRE(once.size() == again.size());
    for (std::size_t i = 0; i < once.size(); ++i) CHECK(once[i].equal(again[i]));
  }
}

TEST_CASE("deterministic: on a GPU only the listed stages have no deterministic backward pass",
          "[gpu]") {
  require_determinism();
  const auto train = [](const config::Stage& type, const std::vector<std::int64_t>& shape) {
    stage::ModelContext context{shape, 5};
    if (type.type == "unet") context.kind.targets = spec::Targets::pixels;
    (void)gradients_of(type, context);
  };
  const auto model = [](const std::string& type, const std::string& options = "{}") {
    return stages_test::stage("model", type, options);
  };
  for (const std::string type :
       {"resnet18", "se_resnet50", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny"}) {
    INFO(type);
    CHECK_NOTHROW(train(model(type), {3, 64, 64}));
  }
  CHECK_NOTHROW(train(model("lenet"), {1, 28, 28}));
  CHECK_NOTHROW(train(model("sequential",
                            "{layers: [{type: conv2d, out_channels: 4, kernel_size: 3}, "
                            "{type: max_pool2d, kernel_size: 3, stride: 2}, "
                            "{type: avg_pool2d, kernel_size: 3, stride: 2}, gelu, "
                            "adaptive_avg_pool2d, flatten, linear]}"),
                      {3, 28, 28}));
  const std::vector<std::string> listed{"{type: adaptive_avg_pool2d, output_size: 2}",
                                        "adaptive_max_pool2d",
                                        "{type: upsample, size: 8, mode: bilinear}"};
  REQUIRE(listed.size() + 1 == spec::nondeterministic_stages().size());
  CHECK_NOTHROW(train(model("unet", "{channels: 4, depth: 2}"), {3, 28, 28}));
  CHECK_THROWS_WITH(
      train(model("unet", "{channels: 4, depth: 2, upsampling: bilinear}"), {3, 28, 28}),
      Contains(spec::nondeterministic_stages().back().operation));
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const auto layers =
        model("sequential", "{layers: [{type: conv2d, out_channels: 4, kernel_size: 3}, " +
                                listed[i] + ", flatten, linear]}");
    CHECK_THROWS_WITH(train(layers, {3, 28, 28}),
                      Contains(spec::nondeterministic_stages()[i].operation));
  }
}
