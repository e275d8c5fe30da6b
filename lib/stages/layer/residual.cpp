#include "spec/options/layer.hpp"
#include "stages/builtin.hpp"
#include "stages/layer/layer_list.hpp"

namespace trainctl::stages {
namespace {

class ResidualLayer final : public stage::Model {
 public:
  ResidualLayer(const spec::layer::Residual& options, const stage::LayerContext& context)
      : layers_(options.layers, context.input), shortcut_(options.shortcut, context.input) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    return layers_.forward(inputs) + shortcut_.forward(inputs);
  }
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override {
    return named(layers_.parameters(), shortcut_.parameters());
  }
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override {
    return named(layers_.buffers(), shortcut_.buffers());
  }
  void set_mode(stage::RunMode mode) override {
    layers_.set_mode(mode);
    shortcut_.set_mode(mode);
  }
  void to(at::Device device) override {
    layers_.to(device);
    shortcut_.to(device);
  }

 private:
  static std::vector<stage::NamedTensor> named(const std::vector<stage::NamedTensor>& layers,
                                               const std::vector<stage::NamedTensor>& shortcut) {
    std::vector<stage::NamedTensor> all;
    for (const auto& [name, tensor] : layers) all.push_back({"layers." + name, tensor});
    for (const auto& [name, tensor] : shortcut) all.push_back({"shortcut." + name, tensor});
    return all;
  }

  LayerList layers_;
  LayerList shortcut_;
};

}  // namespace

void register_layer_residual(stage::Catalog& catalog) {
  catalog.layers.add_class<spec::layer::Residual, ResidualLayer>("residual");
}

}  // namespace trainctl::stages
