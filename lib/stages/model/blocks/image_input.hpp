#pragma once

#include "spec/compatibility.hpp"
#include "stage/stages.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::stages {

/// Channels of the images that a model is built for. Throws Error(config) where the samples are no
/// images, and the first of `refusals`.
std::int64_t checked_channels(const stage::ModelContext& context,
                              const std::vector<spec::Refusal>& refusals);

/// The same, where the options of the model know what they refuse.
template <class Options>
std::int64_t checked_channels(const Options& options, const stage::ModelContext& context) {
  return checked_channels(context,
                          options.refusals({context.kind, context.input_shape, context.outputs}));
}

}  // namespace trainctl::stages
