#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/layer/layer_list.hpp"
#include "stages/model/blocks/layers.hpp"

namespace trainctl::stages {
namespace {

stage::LayerContext first_context(const spec::model::Sequential& options,
                                  const stage::ModelContext& context,
                                  std::shared_ptr<const stage::PaddedTokens> tokens) {
  checked_features(context);
  throw_first(options.refusals(model_input(context)));
  return {spec::layer::first_input(model_input(context)), /*relu_follows=*/false, std::move(tokens),
          options.quantize == spec::model::Quantize::int8};
}

/// Shows the tokens of each batch to the layers, which may need to know the padding.
class Sequential final : public LayerList {
 public:
  Sequential(const spec::model::Sequential& options, const stage::ModelContext& context)
      : Sequential(options, context, padded_tokens(context)) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    if (tokens_) tokens_->inputs = inputs;
    return LayerList::forward(inputs);
  }

 private:
  Sequential(const spec::model::Sequential& options, const stage::ModelContext& context,
             const std::shared_ptr<stage::PaddedTokens>& tokens)
      : LayerList(options.layers, first_context(options, context, tokens)), tokens_(tokens) {}

  static std::shared_ptr<stage::PaddedTokens> padded_tokens(const stage::ModelContext& context) {
    if (context.kind.padding_id < 0) return nullptr;
    auto tokens = std::make_shared<stage::PaddedTokens>();
    tokens->padding_id = context.kind.padding_id;
    return tokens;
  }

  std::shared_ptr<stage::PaddedTokens> tokens_;
};

}  // namespace

void register_model_sequential(stage::Catalog& catalog) {
  catalog.models.add_class<spec::model::Sequential, Sequential>("sequential");
}

}  // namespace trainctl::stages
