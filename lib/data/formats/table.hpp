#pragma once

#include "data/core/dataset.hpp"
#include "spec/options/dataset.hpp"

namespace trainctl::data {

/// The position of a field: line and byte in a text file, row and column in other formats.
struct TablePlace {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// Reads a table row by row, independent of the file format. All functions throw Error(data).
class TableRows {
 public:
  virtual ~TableRows() = default;
  [[nodiscard]] virtual const std::vector<std::string>& columns() const = 0;
  /// Advances to the next row. Returns false at the end.
  virtual bool next() = 0;
  /// Returns a finite number of this row, or nothing if the value is missing.
  [[nodiscard]] virtual std::optional<double> number(std::size_t column) const = 0;
  /// Returns the value as text, or nothing if it is missing.
  [[nodiscard]] virtual std::optional<std::string> text(std::size_t column) const = 0;
  /// Returns the position of a value. describe() formats a position for messages: "train.csv:3:14".
  [[nodiscard]] virtual TablePlace where(std::size_t column) const = 0;
  [[nodiscard]] virtual std::string describe(const TablePlace& place) const = 0;
  [[nodiscard]] std::string place(std::size_t column) const { return describe(where(column)); }
  /// Returns the table name for errors.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Returns where the file ends: "ends at byte 812 (line 40)".
  [[nodiscard]] virtual std::string end() const { return "ends"; }
  /// For the error about a missing column: explains where the names come from. May be empty.
  [[nodiscard]] virtual std::string how_named() const { return {}; }
};

// The entry points of libtrainctl_parquet.so, which builds with Arrow contain.
constexpr const char* kParquetLibrary = "libtrainctl_parquet.so";
constexpr const char* kParquetSymbol = "trainctl_parquet_open_3";
constexpr const char* kParquetVersionSymbol = "trainctl_parquet_version";
/// Reads the rows of an open file, which the caller owns; `name` is the file name in errors. Throws
/// Error.
using ParquetOpen = TableRows* (*)(int fd, const char* name);

/// Returns whether Parquet can be read. Loads the library on the first call, because linking Arrow
/// would make every start about 10 ms longer.
bool has_parquet();
/// Reads a Parquet file by row groups. Throws Error(data), or Error(config) with a hint when this
/// build cannot read Parquet.
std::unique_ptr<TableRows> open_parquet(const std::filesystem::path& path);

/// Opens a CSV file; `options` must outlive the result. Throws Error(data).
std::unique_ptr<TableRows> open_csv(const spec::dataset::Csv& options,
                                    const std::filesystem::path& path);

using OpenTable = std::function<std::unique_ptr<TableRows>(const std::filesystem::path&)>;

/// Returns the table as a data set: features f32 {n}, label i64 or f32. Means, deviations,
/// categories and class names are learned from `statistics_from`, which is read first. Throws
/// Error(data) or Error(config).
std::shared_ptr<const Dataset> load_table(const spec::dataset::Table& options,
                                          const OpenTable& open);
/// Returns the facts of that data set. Reads every row to count them, which is fast for a table
/// that fits into memory.
Facts table_facts(const spec::dataset::Table& options, const OpenTable& open);
/// Returns the group of each sample, by the column that dataset.split.group_by names.
std::vector<std::uint32_t> table_groups(const spec::dataset::Table& options, const OpenTable& open);
/// Returns statistics of the feature columns of all rows as they are stored, before values are
/// standardized, filled in or dropped.
std::vector<ColumnStats> table_columns(const spec::dataset::Table& options, const OpenTable& open);

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
