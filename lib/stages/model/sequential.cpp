#include "spec/model/sequential.hpp"

#include "stages/builtin.hpp"
#include "stages/layer/layer_list.hpp"
#include "stages/model/blocks/check_input.hpp"
#include "stages/model/blocks/layers.hpp"

namespace trainctl::stages {
namespace {

spec::layer::LayerInput checked_input(const spec::model::Sequential& options,
                                      const stage::ModelContext& context) {
  checked_features(context);
  throw_first(options.refusals(model_input(context)));
  return {context.input_shape, context.kind.inputs == spec::Inputs::tokens, context.outputs};
}

class Sequential final : public stage::Model {
 public:
  Sequential(const spec::model::Sequential& options, const stage::ModelContext& context)
      : layers_(options.layers, checked_input(options, context)) {}

  at::Tensor forward(const at::Tensor& inputs) override { return layers_(inputs); }
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override {
    return layers_.parameters();
  }
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override {
    return layers_.buffers();
  }
  void set_mode(stage::RunMode mode) override { layers_.set_mode(mode); }
  void to(at::Device device) override { layers_.to(device); }

 private:
  LayerList layers_;
};

}  // namespace

void register_model_sequential(stage::Catalogue& catalogue) {
  catalogue.models.add_class<spec::model::Sequential, Sequential>("sequential");
}

}  // namespace trainctl::stages
