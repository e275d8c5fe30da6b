#pragma once

#include "config/schema/schema.hpp"
#include "data/formats/table.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::data {

/// Returns whether samples of a data set depend on means, deviations or categories that are learned
/// from a table of training data.
bool learns_from_data(const config::Stage& dataset);

/// One feature column of a table with its learned statistics.
struct FeatureColumn : ColumnStats {
  std::map<std::string, std::size_t> categories;  // maps a name to the index of its one-hot feature

  [[nodiscard]] std::size_t width() const { return categorical ? categories.size() : 1; }
  /// Returns the divisor of standardized values, as in scikit-learn's StandardScaler: 1 for a
  /// constant column.
  [[nodiscard]] double scale() const { return deviation() > 0 ? deviation() : 1; }
};

/// The columns that a data set uses, the rules for missing values, and the learned statistics.
class TableColumns {
 public:
  /// Finds the columns by name. Throws Error(config) for contradictory options, Error(data) for a
  /// missing column.
  TableColumns(const spec::dataset::Table& options, const TableRows& rows);

  /// Learns from all rows of a table, which must have the same columns.
  void learn(TableRows& rows);
  /// Learns numbers only from the kept rows whose entry in `learned` is true, and learns no labels.
  void learn(TableRows& rows, const std::vector<bool>& learned);
  /// Returns whether options such as `standardize` require learn().
  [[nodiscard]] bool learns() const;
  /// Returns whether this row is dropped because a value is missing.
  [[nodiscard]] bool dropped(const TableRows& rows) const;
  [[nodiscard]] std::size_t label_column() const { return label_; }
  /// Returns the column that dataset.split.group_by names.
  [[nodiscard]] std::size_t group_column(const TableRows& rows) const;

  [[nodiscard]] const std::vector<FeatureColumn>& features() const { return features_; }
  /// Returns the table column of a feature column.
  [[nodiscard]] std::size_t place(std::size_t feature) const { return at_[feature]; }
  /// Returns the number of features of a sample.
  [[nodiscard]] std::size_t width() const;
  /// Returns the column name of each feature, with the category for a one-hot feature:
  /// "district=north".
  [[nodiscard]] std::vector<std::string> feature_names() const;
  /// Appends the features of this row and returns its label text, or nothing if the row is dropped.
  std::optional<std::string> take(const TableRows& rows, std::vector<float>& features) const;
  /// Returns the class names of the table that was learned from, or an empty map.
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
  std::vector<std::string> names_;  // of all columns; every table must have the same
  std::vector<FeatureColumn> features_;
  std::vector<std::size_t> at_;  // table column of each feature column
  std::size_t label_ = 0;
  std::map<std::string, std::size_t> labels_;
};

}  // namespace trainctl::data
