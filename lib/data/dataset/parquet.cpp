#include "spec/dataset/parquet.hpp"

#include "data/core/registry.hpp"
#include "data/dataset/parquet_reader.hpp"

namespace trainctl::data {
namespace {

using spec::dataset::Parquet;

}  // namespace

void register_dataset_parquet(Catalogue& catalogue) {
  catalogue.datasets["parquet"] = [](const config::Stage& stage) {
    return load_table(stage.as<Parquet>(), open_parquet);
  };
  catalogue.facts["parquet"] = [](const config::Stage& stage) {
    return table_facts(stage.as<Parquet>(), open_parquet);
  };
  catalogue.groups["parquet"] = [](const config::Stage& stage) {
    return table_groups(stage.as<Parquet>(), open_parquet);
  };
  catalogue.columns["parquet"] = [](const config::Stage& stage) {
    return table_columns(stage.as<Parquet>(), open_parquet);
  };
}

}  // namespace trainctl::data
