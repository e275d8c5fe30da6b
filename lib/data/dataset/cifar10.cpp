#include "spec/dataset/cifar10.hpp"

#include "data/core/registry.hpp"
#include "data/dataset/cifar.hpp"

namespace trainctl::data {
namespace {

CifarFiles files_of(const config::Stage& stage) {
  const auto& options = stage.as<spec::dataset::Cifar10>();
  CifarSplit split{.type = "cifar10",
                   .archive = "cifar-10-binary.tar.gz",
                   .folder = "cifar-10-batches-bin",
                   .files = {"test_batch.bin"},
                   .records = 10'000,
                   .classes = 10};
  if (options.split == spec::Split::train) {
    split.files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                   "data_batch_5.bin"};
  }
  return {options.root, std::move(split)};
}

}  // namespace

void register_dataset_cifar10(Catalogue& catalogue) {
  catalogue.datasets["cifar10"] = [](const config::Stage& stage) { return files_of(stage).load(); };
  catalogue.facts["cifar10"] = [](const config::Stage& stage) { return files_of(stage).facts(); };
}

}  // namespace trainctl::data
