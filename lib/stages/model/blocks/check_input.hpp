#pragma once

#include "spec/compatibility.hpp"
#include "stage/stages.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::stages {

/// The context as the options of a model see it.
spec::ModelInput model_input(const stage::ModelContext& context);

/// Throws Error(config) of the first, if any.
void throw_first(const std::vector<spec::Refusal>& refusals);

/// Images have a channel, a height and a width, and no extent is empty. Throws Error(config).
void check_shape(const stage::ModelContext& context);

/// Throws Error(config) where a model with these options does not take such samples.
template <class Options>
void check_input(const Options& options, const stage::ModelContext& context) {
  throw_first(options.refusals(model_input(context)));
  check_shape(context);
}

/// Channels of the images that a model is built for. Throws Error(config) where the samples are no
/// images, and the first of `refusals`.
std::int64_t checked_channels(const stage::ModelContext& context,
                              const std::vector<spec::Refusal>& refusals);

/// The same, where the options of the model know what they refuse.
template <class Options>
std::int64_t checked_channels(const Options& options, const stage::ModelContext& context) {
  return checked_channels(context, options.refusals(model_input(context)));
}

}  // namespace trainctl::stages
