#include "spec/model/gpt.hpp"

#include <fmt/format.h>

namespace trainctl::spec::model {

std::vector<Refusal> Gpt::refusals(const ModelInput& input) const {
  std::vector<Refusal> all;
  if (width % heads != 0) {
    all.push_back({fmt::format("a width of {} does not divide into {} heads", width, heads),
                   fmt::format("write a multiple of {}", heads), "width"});
  }
  if (input.outputs == 0) {
    all.push_back({"gpt needs to know how many different tokens there are",
                   "add 'vocab_size: 50257' to dataset.train, or what your tokenizer has"});
  }
  if (!input.shape.empty() && input.shape[0] > context) {
    all.push_back({fmt::format("a sample has {} tokens, but the model's longest sequence is {}",
                               input.shape[0], context),
                   fmt::format("write 'context: {}' or more, or shorten dataset.train."
                               "sequence_length",
                               input.shape[0])});
  }
  return all;
}

}  // namespace trainctl::spec::model
