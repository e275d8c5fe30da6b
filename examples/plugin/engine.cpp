// libspirals_engine.so: the part that needs libtorch. Only workers load it.

#include "options.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros.h>
#include <stage/module.hpp>
#include <stage/plugin_entry.hpp>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spirals {
namespace {

namespace stage = trainctl::stage;

/// The parameters have PyTorch's names: layers.0, layers.1, ..., head.
class GatedNetwork final : public stage::Module {
 public:
  GatedNetwork(const GatedMlp& options, const stage::ModelContext& context) {
    std::int64_t width = 1;
    for (const std::int64_t extent : context.input_shape) width *= extent;
    for (int i = 0; i < options.layers; ++i) {
      add_linear("layers." + std::to_string(i), width, 2 * options.hidden);
      width = options.hidden;
    }
    add_linear("head", width, context.outputs);
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    at::Tensor x = inputs.flatten(1);
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i)
      x = at::glu(at::linear(x, layers_[i].weight, layers_[i].bias), 1);
    return at::linear(x, layers_.back().weight, layers_.back().bias);
  }

 private:
  struct Linear {
    at::Tensor weight;
    at::Tensor bias;
  };

  /// The run has seeded libtorch, so the same seed gives the same weights.
  void add_linear(const std::string& name, std::int64_t in, std::int64_t out) {
    const double bound = std::sqrt(3.0 / static_cast<double>(in));
    Linear layer;
    layer.weight = add_parameter(name + ".weight", at::empty({out, in}).uniform_(-bound, bound));
    layer.bias = add_parameter(name + ".bias", at::zeros({out}));
    layers_.push_back(layer);
  }

  std::vector<Linear> layers_;
};

class Poly1Loss final : public stage::Loss {
 public:
  explicit Poly1Loss(const Poly1& options) : epsilon_(options.epsilon) {}

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    // Tokens have the shapes [N, T, K] and [N, T]: each token becomes a row.
    const at::Tensor entropy =
        at::cross_entropy_loss(logits.flatten(0, -2), targets.flatten(), {}, at::Reduction::None);
    const at::Tensor right = at::exp(-entropy);  // the probability of the right class
    return {(entropy + epsilon_ * (1 - right)).mean(), {}};
  }

 private:
  double epsilon_;
};

/// Replaces the usual step, as `training_step` does in Lightning. The noise comes from libtorch's
/// generator, whose state checkpoints contain, so a resumed run continues bit by bit.
class ConsistencyTask final : public stage::Task {
 public:
  explicit ConsistencyTask(const Consistency& options) : options_(options) {}

  stage::TaskResult step(const trainctl::device::DeviceBatch& batch,
                         stage::StepTools& tools) override {
    stage::TaskResult result = Task::step(batch, tools);
    if (tools.mode() == stage::RunMode::evaluate) return result;
    const at::Tensor noise = at::randn_like(batch.inputs) * options_.noise;
    const at::Tensor distance =
        at::mse_loss(tools.forward(batch.inputs + noise), result.outputs.detach());
    result.loss.value = result.loss.value + options_.weight * distance;
    return result;
  }

 private:
  Consistency options_;
};

void add_stages(stage::Catalog& all) {
  all.models.add<GatedMlp>("gated_mlp", [](const auto& options, const auto& context) {
    return std::make_unique<GatedNetwork>(options, context);
  });
  all.losses.add<Poly1>("poly1", [](const auto& options, const auto&) {
    return std::make_unique<Poly1Loss>(options);
  });
  all.tasks.add_class<Consistency, ConsistencyTask>("consistency");
}

}  // namespace
}  // namespace spirals

extern "C" const trainctl::stage::PluginEngineEntry trainctl_plugin_engine{.add_stages =
                                                                               spirals::add_stages};
