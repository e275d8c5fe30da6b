#include "data/core/registry.hpp"
#include "spec/options/sampler.hpp"

namespace trainctl::data {

void register_sampler_weighted_random(Catalog& catalog) {
  catalog.samplers["weighted_random"] = [](const config::Stage& stage) {
    const auto& options = stage.as<spec::sampler::WeightedRandom>();
    return ClassSampling{options.weights, options.num_samples};
  };
}

void register_sampler_class_balanced(Catalog& catalog) {
  catalog.samplers["class_balanced"] = [](const config::Stage& stage) {
    return ClassSampling{{}, stage.as<spec::sampler::ClassBalanced>().num_samples};
  };
}

}  // namespace trainctl::data
