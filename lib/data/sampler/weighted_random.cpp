#include "spec/sampler/weighted_random.hpp"

#include "data/core/registry.hpp"

namespace trainctl::data {

void register_sampler_weighted_random(Catalogue& catalogue) {
  catalogue.samplers["weighted_random"] = [](const config::Stage& stage) {
    const auto& options = stage.as<spec::sampler::WeightedRandom>();
    return ClassSampling{options.weights, options.num_samples};
  };
}

}  // namespace trainctl::data
