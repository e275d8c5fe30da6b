#include "base/error.hpp"
#include "data/parquet.hpp"

namespace trainctl::data {

bool has_parquet() { return false; }

std::unique_ptr<TableRows> open_parquet(const std::filesystem::path&) {
  throw Error(ErrorKind::config,
              "this build does not read Parquet; write the table as CSV and use 'csv', or "
              "configure trainctl with "
              "-DTRAINCTL_ARROW_ROOT=<the pyarrow folder of a site-packages>");
}

}  // namespace trainctl::data
