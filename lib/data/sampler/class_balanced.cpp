#include "spec/sampler/class_balanced.hpp"

#include "data/core/registry.hpp"

namespace trainctl::data {

void register_sampler_class_balanced(Catalogue& catalogue) {
  catalogue.samplers["class_balanced"] = [](const config::Stage& stage) {
    return ClassSampling{{}, stage.as<spec::sampler::ClassBalanced>().num_samples};
  };
}

}  // namespace trainctl::data
