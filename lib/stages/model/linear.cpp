#include "spec/model/linear.hpp"

#include "stages/builtin.hpp"
#include "stages/model/layers.hpp"

namespace trainctl::stages {
namespace {

class LinearModel final : public LayeredModule {
 public:
  LinearModel(const spec::model::Linear& options, const stage::ModelContext& context)
      : fc_(add_linear("fc", checked_features(context), context.outputs,
                       options.bias ? Bias::with : Bias::without)) {}

  at::Tensor forward(const at::Tensor& inputs) override { return fc_(inputs.flatten(1)); }

 private:
  Linear fc_;
};

}  // namespace

void register_model_linear(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::Linear>("linear", [](const auto& options, const auto& context) {
    return std::make_unique<LinearModel>(options, context);
  });
}

}  // namespace trainctl::stages
