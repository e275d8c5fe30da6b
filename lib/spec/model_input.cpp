#include "spec/model_input.hpp"

#include "spec/stage_headers.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace trainctl::spec {
namespace {

template <class Options>
void ask(const config::Stage& model, const ModelInput& input, std::vector<Refusal>& all) {
  if constexpr (requires(const Options& options) { options.refusals(input); }) {
    if (model.options_type == typeid(Options)) all = model.as<Options>().refusals(input);
  }
}

}  // namespace

std::vector<Refusal> refusals(const config::Stage& model, const ModelInput& input) {
  std::vector<Refusal> all;
#define TRAINCTL_ASK(kind, name, Type) ask<kind::Type>(model, input, all);
  TRAINCTL_FOR_EACH_STAGE(TRAINCTL_ASK)
#undef TRAINCTL_ASK
  return all;
}

bool may_have_convolutions(const config::Stage& model) {
  constexpr std::array<std::string_view, 4> kWithout{"linear", "mlp", "gpt", "torchscript"};
  return std::ranges::find(kWithout, model.type) == kWithout.end();
}

}  // namespace trainctl::spec
