#pragma once

#include "data/core/dataset.hpp"
#include "spec/options/dataset.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace trainctl::data
