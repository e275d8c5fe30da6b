#include "spec/dataset/cifar100.hpp"

#include "data/core/registry.hpp"
#include "data/dataset/cifar10.hpp"

namespace trainctl::data {
namespace {

CifarFiles files_of(const config::Stage& stage) {
  const auto& options = stage.as<spec::dataset::Cifar100>();
  const bool train = options.split == spec::Split::train;
  const bool fine = options.label == spec::dataset::CifarLabel::fine;
  // A record begins with the coarse label, then the fine one.
  return {options.root, CifarSplit{.type = "cifar100",
                                   .archive = "cifar-100-binary.tar.gz",
                                   .folder = "cifar-100-binary",
                                   .files = {train ? "train.bin" : "test.bin"},
                                   .records = train ? 50'000 : 10'000,
                                   .label_bytes = 2,
                                   .label_at = fine ? 1 : 0,
                                   .classes = fine ? 100 : 20}};
}

}  // namespace

void register_dataset_cifar100(Catalogue& catalogue) {
  catalogue.datasets["cifar100"] = [](const config::Stage& stage) {
    return files_of(stage).load();
  };
  catalogue.facts["cifar100"] = [](const config::Stage& stage) { return files_of(stage).facts(); };
}

}  // namespace trainctl::data
