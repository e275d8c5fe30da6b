#include "data/dataset/parquet.hpp"

#include "base/error.hpp"
#include "base/shared_library.hpp"
#include "data/core/registry.hpp"
#include "data/formats/file_reader.hpp"
#include "spec/dataset/parquet.hpp"

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

namespace {

struct Module {
  ParquetOpen open = nullptr;
  const char* cause = nullptr;  // why it is missing
};

const Module& module() {
  static const Module loaded = [] {
    Module found;
    found.open =
        reinterpret_cast<ParquetOpen>(find_in_module(kParquetLibrary, kParquetSymbol, found.cause));
    return found;
  }();
  return loaded;
}

}  // namespace

bool has_parquet() { return module().open != nullptr; }

std::unique_ptr<TableRows> open_parquet(const std::filesystem::path& path) {
  const FileReader file(path);
  ENSURE(config, has_parquet(),
         "Parquet needs Arrow, and {} cannot be loaded: {}; write the table as CSV and use 'csv', "
         "or run scripts/setup --arrow and build again",
         kParquetLibrary, module().cause);
  file.need_all();
  return std::unique_ptr<TableRows>(module().open(file.fd(), path.c_str()));
}

}  // namespace trainctl::data
