#include "spec/options/layer.hpp"
#include "stages/builtin.hpp"
#include "stages/layer/layer_list.hpp"

#include <ATen/ops/cat.h>

namespace trainctl::stages {
namespace {

class ResidualLayer final : public Container {
 public:
  ResidualLayer(const spec::layer::Residual& options, const stage::LayerContext& context) {
    add("layers", std::make_unique<LayerList>(options.layers, context));
    add("shortcut", std::make_unique<LayerList>(options.shortcut, context));
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    return forward_child(0, inputs) + forward_child(1, inputs);
  }
};

class ConcatLayer final : public Container {
 public:
  ConcatLayer(const spec::layer::Concat& options, const stage::LayerContext& context)
      : dim_(options.dim) {
    for (const spec::layer::ConcatBranch& branch : options.branches) {
      add("branches." + std::to_string(size()),
          std::make_unique<LayerList>(branch.layers, context));
    }
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    std::vector<at::Tensor> outputs;
    for (std::size_t i = 0; i < size(); ++i) outputs.push_back(forward_child(i, inputs));
    return at::cat(outputs, dim_);
  }

 private:
  std::int64_t dim_;
};

}  // namespace

void register_layer_branches(stage::Catalog& catalog) {
  catalog.layers.add_class<spec::layer::Residual, ResidualLayer>("residual");
  catalog.layers.add_class<spec::layer::Concat, ConcatLayer>("concat");
}

}  // namespace trainctl::stages
