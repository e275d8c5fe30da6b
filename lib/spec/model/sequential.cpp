#include "spec/model/sequential.hpp"

#include "spec/layer/shape_inference.hpp"

#include <fmt/format.h>

namespace trainctl::spec::model {
namespace {

/// One row of outputs a sample, or, where each token is learnt, a row for each of them.
layer::Shape wanted(const ModelInput& input) {
  if (input.kind.targets == Targets::tokens) return {input.shape[0], input.outputs};
  return {input.outputs};
}

}  // namespace

std::vector<Refusal> Sequential::refusals(const ModelInput& input) const {
  const bool tokens = input.kind.inputs == Inputs::tokens;
  if (input.shape.empty() || (input.outputs == 0 && !tokens)) return {};  // not known
  if (input.outputs == 0)
    return {{"the model needs to know how many different tokens there are",
             "add 'vocab_size' to dataset.train"}};
  LayerWalk walk;
  const auto shape = walk.through(layers, {input.shape, tokens, input.outputs}, "layers.");
  std::vector<Refusal> all = walk.refusals();
  if (!all.empty() || !shape || *shape == wanted(input)) return all;
  const bool extents = shape->size() != wanted(input).size();
  all.push_back(
      {fmt::format("the last layer, {} ({}), gives {}, but the data asks for {}", layers.size() - 1,
                   layers.back().type, layer::shape_text(*shape), layer::shape_text(wanted(input))),
       extents ? "put 'flatten' and 'linear' at the end"
               : "let the last layer be 'linear' without 'out_features'"});
  return all;
}

}  // namespace trainctl::spec::model
