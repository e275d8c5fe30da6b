#include "stages/model/blocks/check_input.hpp"

#include "base/error.hpp"
#include "stages/model/blocks/layers.hpp"

#include <fmt/ranges.h>

namespace trainctl::stages {

spec::ModelInput model_input(const stage::ModelContext& context) {
  return {context.kind, context.input_shape, context.outputs};
}

void throw_first(const std::vector<spec::Refusal>& refusals) {
  if (refusals.empty()) return;
  throw Error(ErrorKind::config, refusals[0].message + "; " + refusals[0].hint);
}

void check_shape(const stage::ModelContext& context) {
  checked_features(context);
  const bool images = context.kind.inputs == spec::Inputs::images;
  ENSURE(config, !images || context.input_shape.size() == 3,
         "the input has the shape {}: the model needs images, C x H x W",
         fmt::join(context.input_shape, "x"));
}

std::int64_t checked_channels(const stage::ModelContext& context,
                              const std::vector<spec::Refusal>& refusals) {
  checked_features(context);
  const auto inputs = static_cast<std::size_t>(context.kind.inputs);
  ENSURE(config, context.kind.inputs == spec::Inputs::images && context.input_shape.size() == 3,
         "the input is {} of the shape {}: the model needs images, C x H x W; choose model mlp or "
         "linear",
         spec::enum_names(context.kind.inputs)[inputs], fmt::join(context.input_shape, "x"));
  throw_first(refusals);
  return context.input_shape.front();
}

}  // namespace trainctl::stages
