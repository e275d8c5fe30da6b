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

/// Where a field stands in its file: line and byte of a text, row and column of another.
struct TablePlace {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// A table read row by row, whatever it is stored as. Every function throws Error(data).
class TableRows {
 public:
  virtual ~TableRows() = default;
  [[nodiscard]] virtual const std::vector<std::string>& columns() const = 0;
  /// Goes on to the next row; false behind the last.
  virtual bool next() = 0;
  /// A finite number of this row, or nothing where it is missing.
  [[nodiscard]] virtual std::optional<double> number(std::size_t column) const = 0;
  /// As text, or nothing where it is missing.
  [[nodiscard]] virtual std::optional<std::string> text(std::size_t column) const = 0;
  /// Where in the file that stands; as errors say it, "train.csv:3:14".
  [[nodiscard]] virtual TablePlace where(std::size_t column) const = 0;
  [[nodiscard]] virtual std::string describe(const TablePlace& place) const = 0;
  [[nodiscard]] std::string place(std::size_t column) const { return describe(where(column)); }
  /// As errors name the table.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Where the file ends: "ends at byte 812 (line 40)".
  [[nodiscard]] virtual std::string end() const { return "ends"; }
  /// For the error that a column is missing: how the names were read; may be empty.
  [[nodiscard]] virtual std::string how_named() const { return {}; }
};

// The one door of libtrainctl_parquet.so, which builds with Arrow have.
constexpr const char* kParquetLibrary = "libtrainctl_parquet.so";
constexpr const char* kParquetSymbol = "trainctl_parquet_open_3";
constexpr const char* kParquetVersionSymbol = "trainctl_parquet_version";
/// The rows of an open file, which the caller owns; `name` is what errors call it. Throws Error.
using ParquetOpen = TableRows* (*)(int fd, const char* name);

/// Whether Parquet can be read, which loads the library: linked, Arrow would make every start some
/// 10 ms longer.
bool has_parquet();
/// A Parquet file, row group by row group. Throws Error(data); where Parquet cannot be read,
/// Error(config) that says what to do.
std::unique_ptr<TableRows> open_parquet(const std::filesystem::path& path);

using OpenTable = std::function<std::unique_ptr<TableRows>(const std::filesystem::path&)>;

/// The table as a data set: features f32 {n}, label i64 or f32. What is learned - means,
/// deviations, categories, class names - comes from `statistics_from`, read first. Throws
/// Error(data) or Error(config).
std::shared_ptr<const Dataset> load_table(const spec::dataset::Table& options,
                                          const OpenTable& open);
/// The facts of the same. Rows are known once every one has been read; a table that fits memory
/// takes a moment.
Facts table_facts(const spec::dataset::Table& options, const OpenTable& open);
/// The group of each sample, by the column that dataset.split.group_by names.
std::vector<std::uint32_t> table_groups(const spec::dataset::Table& options, const OpenTable& open);
/// The feature columns of all rows as they are stored: before anything is standardized, filled in
/// or dropped.
std::vector<ColumnStats> table_columns(const spec::dataset::Table& options, const OpenTable& open);

}  // namespace trainctl::data
