#include "stages/model/blocks/image_input.hpp"

#include "base/error.hpp"
#include "stages/model/layers.hpp"

#include <fmt/ranges.h>

namespace trainctl::stages {

std::int64_t checked_channels(const stage::ModelContext& context,
                              const std::vector<spec::Refusal>& refusals) {
  checked_features(context);
  const auto inputs = static_cast<std::size_t>(context.kind.inputs);
  ENSURE(config, context.kind.inputs == spec::Inputs::images && context.input_shape.size() == 3,
         "the input is {} of the shape {}: the model needs images, C x H x W; choose model mlp or "
         "linear",
         spec::enum_names(context.kind.inputs)[inputs], fmt::join(context.input_shape, "x"));
  if (!refusals.empty())
    throw Error(ErrorKind::config, refusals.front().message + "; " + refusals.front().hint);
  return context.input_shape.front();
}

}  // namespace trainctl::stages
