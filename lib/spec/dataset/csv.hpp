#pragma once

#include "config/schema/describe.hpp"
#include "spec/dataset/table.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec::dataset {

struct Csv : Table {
  static constexpr auto kSummary =
      "A table of comma- or tab-separated text with a head line: numbers and categories.";

  std::string delimiter = ",";
  std::vector<std::string> missing_markers{"", "NA", "NaN", "nan", "null"};

  static void describe(config::Describe<Csv>& options) {
    options.include<Table>();
    options.field("delimiter", &Csv::delimiter, "The one byte between fields; \"\\t\" for tabs.")
        .not_empty();
    options.field("missing_markers", &Csv::missing_markers,
                  "Texts that mean that a value is missing.");
  }
};

}  // namespace trainctl::spec::dataset
