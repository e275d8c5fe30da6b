#include "spec/targets.hpp"

#include "spec/stage_headers.hpp"

#include <optional>

namespace trainctl::spec {
namespace {

/// What the stage says where it has these options; nothing where it has others.
template <class Options, class Asked>
std::optional<bool> answer(const config::Stage& stage, Asked asked) {
  if constexpr (requires(const Options& options) { options.takes(asked); }) {
    if (stage.options_type == typeid(Options)) return stage.as<Options>().takes(asked);
  }
  return std::nullopt;
}

template <class Asked>
std::optional<bool> said_by(const config::Stage& stage, Asked asked) {
  std::optional<bool> said;
#define TRAINCTL_TAKES(kind, name, Type) \
  if (!said) said = answer<kind::Type>(stage, asked);
  TRAINCTL_FOR_EACH_STAGE(TRAINCTL_TAKES)
#undef TRAINCTL_TAKES
  return said;
}

}  // namespace

bool takes(const config::Stage& stage, Targets targets) {
  return said_by(stage, targets).value_or(targets == Targets::classes);
}

bool takes(const config::Stage& model, Inputs inputs) {
  return said_by(model, inputs).value_or(inputs != Inputs::tokens);
}

}  // namespace trainctl::spec
