#include "data/parquet.hpp"

#include "data/registry.hpp"
#include "spec/dataset/parquet.hpp"

namespace trainctl::data {
namespace {

std::shared_ptr<const Dataset> load(const config::Stage& stage) {
  return load_table(stage.as<spec::dataset::Parquet>(), open_parquet);
}

}  // namespace

void register_dataset_parquet(Catalogue& catalogue) {
  catalogue.datasets["parquet"] = load;
  catalogue.facts["parquet"] = [](const config::Stage& stage) {
    const auto dataset = load(stage);
    return Facts{dataset->size(), dataset->classes(), dataset->layout(), dataset->class_names()};
  };
}

}  // namespace trainctl::data
