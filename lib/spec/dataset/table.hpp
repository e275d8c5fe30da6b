#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/split.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec::dataset {

enum class LabelType { category, number };
constexpr std::array<const char*, 2> enum_names(LabelType) { return {"class", "number"}; }

enum class Missing { error, mean, constant, drop };
constexpr std::array<const char*, 4> enum_names(Missing) {
  return {"error", "mean", "constant", "drop"};
}

/// What tables have in common, whatever they are stored as.
struct Table {
  std::filesystem::path path;
  std::string label;
  LabelType label_type = LabelType::category;
  std::vector<std::string> features;
  std::vector<std::string> categorical;
  std::vector<std::string> classes;
  Missing missing = Missing::error;
  double missing_value = 0;
  bool standardize = false;
  std::optional<std::filesystem::path> statistics_from;
  std::optional<std::int64_t> rows;
  std::optional<SplitOptions> split = {};  // set by apply_split(), never by a file

  static void describe(config::Describe<Table>& options) {
    options.field("path", &Table::path, "The table.").required().example("data/house/train.csv");
    options.field("label", &Table::label, "Name of the column with the label.")
        .required()
        .not_empty()
        .example("price");
    options.field("label_type", &Table::label_type,
                  "class: names, or whole numbers from 0; number: a target.");
    options
        .field("features", &Table::features,
               "Names of the feature columns, in their order; otherwise all but the label.")
        .example("[rooms, area]");
    options
        .field("categorical", &Table::categorical,
               "Feature columns of names: each becomes one 0-or-1 feature a name.")
        .example("[district]");
    options
        .field("classes", &Table::classes,
               "Class names in the order of their numbers; needed where they look like numbers. "
               "Otherwise those of statistics_from, sorted.")
        .example("[no, yes]");
    options.field("missing", &Table::missing,
                  "What becomes of a missing number: error, the column's mean, missing_value, or "
                  "its row is dropped.");
    options.field("missing_value", &Table::missing_value, "The value for 'missing: constant'.");
    options.field("standardize", &Table::standardize,
                  "Whether each number has its column's mean taken off and is divided by "
                  "its standard deviation.");
    options
        .field(
            "statistics_from", &Table::statistics_from,
            "The table that means, deviations, categories and class names are learned from: that "
            "of "
            "train, in every split. Absent with dataset.split: numbers are learned from the rows "
            "of train, names from all.")
        .example("data/house/train.csv");
    options
        .field("rows", &Table::rows,
               "Number of rows the table must have: finds one that was cut off at a line's end.")
        .at_least(1)
        .example("20640");
  }
};

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

struct Parquet : Table {
  static constexpr auto kSummary =
      "A table in a Parquet file: numbers and categories (builds with Arrow).";

  static void describe(config::Describe<Parquet>& options) { options.include<Table>(); }
};

}  // namespace trainctl::spec::dataset
