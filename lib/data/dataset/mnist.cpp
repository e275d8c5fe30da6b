#include "spec/dataset/mnist.hpp"

#include "data/core/registry.hpp"
#include "data/dataset/idx.hpp"

namespace trainctl::data {

void register_dataset_mnist(Catalogue& catalogue) {
  catalogue.datasets["mnist"] = [](const config::Stage& stage) {
    return IdxFiles(stage.as<spec::dataset::Mnist>(), stage.type).load();
  };
  catalogue.facts["mnist"] = [](const config::Stage& stage) {
    return IdxFiles(stage.as<spec::dataset::Mnist>(), stage.type).facts();
  };
}

}  // namespace trainctl::data
