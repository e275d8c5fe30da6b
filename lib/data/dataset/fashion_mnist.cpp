#include "spec/dataset/fashion_mnist.hpp"

#include "data/core/registry.hpp"
#include "data/dataset/mnist.hpp"

namespace trainctl::data {

void register_dataset_fashion_mnist(Catalogue& catalogue) {
  catalogue.datasets["fashion_mnist"] = [](const config::Stage& stage) {
    return IdxFiles(stage.as<spec::dataset::FashionMnist>(), stage.type).load();
  };
  catalogue.facts["fashion_mnist"] = [](const config::Stage& stage) {
    return IdxFiles(stage.as<spec::dataset::FashionMnist>(), stage.type).facts();
  };
}

}  // namespace trainctl::data
