#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/layer/layer_list.hpp"
#include "stages/model/blocks/layers.hpp"

namespace trainctl::stages {
namespace {

spec::layer::LayerInput checked_input(const spec::model::Sequential& options,
                                      const stage::ModelContext& context) {
  checked_features(context);
  throw_first(options.refusals(model_input(context)));
  return {context.input_shape, context.kind.inputs == spec::Inputs::tokens, context.outputs,
          context.kind.vocab_size};
}

}  // namespace

void register_model_sequential(stage::Catalog& catalog) {
  catalog.models.add<spec::model::Sequential>(
      "sequential", [](const auto& options, const auto& context) {
        return std::make_unique<LayerList>(options.layers, checked_input(options, context));
      });
}

}  // namespace trainctl::stages
