#pragma once

#include "config/schema/schema.hpp"
#include "data/formats/table.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::data {

/// Whether the samples of a data set depend on means, deviations or categories that are learned
/// from a table of training data.
bool learns_from_data(const config::Stage& dataset);

/// One feature column of a table and what has been learned of it.
struct FeatureColumn : ColumnStats {
  std::map<std::string, std::size_t> categories;  // and the feature each one sets

  [[nodiscard]] std::size_t width() const { return categorical ? categories.size() : 1; }
  /// The divisor of standardized values, as scikit-learn's StandardScaler has it: 1 for a constant
  /// column.
  [[nodiscard]] double scale() const { return deviation() > 0 ? deviation() : 1; }
};

/// The columns a data set takes from its table, the rules for what is missing, and what was
/// learned.
class TableColumns {
 public:
  /// Finds the columns by name. Throws Error(config) for options that contradict each other,
  /// Error(data) for a column that is not there.
  TableColumns(const spec::dataset::Table& options, const TableRows& rows);

  /// Passes over the whole table, which must have the same columns.
  void learn(TableRows& rows);
  /// The same, but numbers are learned only from the kept rows whose entry in `learned` is true,
  /// and labels not at all.
  void learn(TableRows& rows, const std::vector<bool>& learned);
  /// Whether options such as `standardize` need learn().
  [[nodiscard]] bool learns() const;
  /// Whether this row is left out, because it lacks a value.
  [[nodiscard]] bool dropped(const TableRows& rows) const;
  [[nodiscard]] std::size_t label_column() const { return label_; }
  /// The column that dataset.split.group_by names.
  [[nodiscard]] std::size_t group_column(const TableRows& rows) const;

  [[nodiscard]] const std::vector<FeatureColumn>& features() const { return features_; }
  /// Where a feature column stands in the table.
  [[nodiscard]] std::size_t place(std::size_t feature) const { return at_[feature]; }
  /// Features of one sample.
  [[nodiscard]] std::size_t width() const;
  /// Of each feature: its column's, with the category where it is one: "district=north".
  [[nodiscard]] std::vector<std::string> feature_names() const;
  /// Appends the features of this row and returns its label's text; nothing where the row is
  /// dropped.
  std::optional<std::string> take(const TableRows& rows, std::vector<float>& features) const;
  /// The class names of the table that was learned from; empty if none was.
  [[nodiscard]] const std::map<std::string, std::size_t>& labels() const { return labels_; }

 private:
  [[noreturn]] void throw_missing_column(const std::string& name, const TableRows& rows) const;
  void learn_row(const TableRows& rows, bool with_numbers);
  void number_categories(const TableRows& rows);
  void take_number(const FeatureColumn& column, const TableRows& rows, std::size_t at,
                   std::vector<float>& out) const;
  void take_category(const FeatureColumn& column, const TableRows& rows, std::size_t at,
                     std::vector<float>& out) const;

  const spec::dataset::Table& options_;
  std::vector<std::string> names_;  // of all columns, which every table must share
  std::vector<FeatureColumn> features_;
  std::vector<std::size_t> at_;  // the table's column of each
  std::size_t label_ = 0;
  std::map<std::string, std::size_t> labels_;
};

}  // namespace trainctl::data
