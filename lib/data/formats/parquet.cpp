#include "data/formats/parquet.hpp"

#include "base/error.hpp"
#include "base/shared_library.hpp"
#include "data/formats/file_reader.hpp"

namespace trainctl::data {
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
