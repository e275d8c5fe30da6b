#include "spec/model/mlp.hpp"

#include "stages/builtin.hpp"
#include "stages/model/layers.hpp"

#include <ATen/ops/dropout.h>

namespace trainctl::stages {
namespace {

/// fc1, activation, dropout, fc2, ... on the flattened input; the last layer gives the logits.
class Mlp final : public LayeredModule {
 public:
  Mlp(const spec::model::Mlp& options, const stage::ModelContext& context)
      : activation_(options.activation), dropout_(options.dropout) {
    std::int64_t width = checked_features(context);
    for (const std::int64_t next : options.hidden) {
      layers_.push_back(add_linear("fc" + std::to_string(layers_.size() + 1), width, next));
      width = next;
    }
    layers_.push_back(
        add_linear("fc" + std::to_string(layers_.size() + 1), width, context.outputs));
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    at::Tensor x = inputs.flatten(1);
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
      x = activate(activation_, layers_[i](x));
      if (dropout_ > 0 && training()) x = at::dropout(x, dropout_, true);
    }
    return layers_.back()(x);
  }

 private:
  spec::model::Activation activation_;
  double dropout_;
  std::vector<Linear> layers_;
};

}  // namespace

void register_model_mlp(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::Mlp>("mlp", [](const auto& options, const auto& context) {
    return std::make_unique<Mlp>(options, context);
  });
}

}  // namespace trainctl::stages
