#include "spec/layer/residual.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/layer_list.hpp"

namespace trainctl::stages {
namespace {

class ResidualLayer final : public stage::Model {
 public:
  ResidualLayer(const spec::layer::Residual& options, const stage::LayerContext& context)
      : layers_(options.layers, context.input), shortcut_(options.shortcut, context.input) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    return layers_(inputs) + shortcut_(inputs);
  }
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override {
    return both(layers_.parameters("layers."), shortcut_.parameters("shortcut."));
  }
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override {
    return both(layers_.buffers("layers."), shortcut_.buffers("shortcut."));
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
  static std::vector<stage::NamedTensor> both(std::vector<stage::NamedTensor> first,
                                              const std::vector<stage::NamedTensor>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  LayerList layers_;
  LayerList shortcut_;
};

}  // namespace

void register_layer_residual(stage::Catalogue& catalogue) {
  catalogue.layers.add_class<spec::layer::Residual, ResidualLayer>("residual");
}

}  // namespace trainctl::stages
