#pragma once

#include "config/schema/describe.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::spec::sampler {

/// What the samplers that draw with replacement share.
struct Drawn {
  std::optional<std::int64_t> num_samples;

  static void describe(config::Describe<Drawn>& options) {
    options
        .field("num_samples", &Drawn::num_samples,
               "Samples of an epoch; absent: as many as the data set has.")
        .at_least(1)
        .at_most(4'294'967'294)
        .example("50000");
  }
};

}  // namespace trainctl::spec::sampler
