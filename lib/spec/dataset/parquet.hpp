#pragma once

#include "spec/dataset/table.hpp"

namespace trainctl::spec::dataset {

struct Parquet : Table {
  static constexpr auto kSummary =
      "A table in a Parquet file: numbers and categories (builds with Arrow).";

  static void describe(config::Describe<Parquet>& options) { options.include<Table>(); }
};

}  // namespace trainctl::spec::dataset
