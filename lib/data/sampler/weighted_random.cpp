#include "spec/sampler/weighted_random.hpp"

#include "data/core/registry.hpp"

namespace trainctl::data {

void register_sampler_weighted_random(Catalogue& catalogue) {
  catalogue.samplers["weighted_random"] = [](const config::Stage& stage) {
    const auto& options = stage.as<spec::sampler::WeightedRandom>();
    return ClassSampling{options.weights, options.num_samples};
  };
}

void register_sampler_class_balanced(Catalogue& catalogue) {
  catalogue.samplers["class_balanced"] = [](const config::Stage& stage) {
    return ClassSampling{{}, stage.as<spec::sampler::ClassBalanced>().num_samples};
  };
}

}  // namespace trainctl::data
