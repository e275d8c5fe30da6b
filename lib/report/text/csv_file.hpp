#pragma once

#include "base/files.hpp"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::report {

struct CsvField {
  std::string name;
  std::string cell;
};

/// The cells of one line; the reverse of csv_line() for cells without line ends.
std::vector<std::string> csv_cells(std::string_view line);

/// A CSV file that grows by rows, each one write(). An existing file is continued: its header says
/// the columns. A column it does not have yet is added at the end of every line, empty in the old
/// rows.
class CsvFile {
 public:
  explicit CsvFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// All of it or nothing: throws Error(resource) where the file cannot be written.
  void append(std::span<const CsvField> row);
  /// See AppendFile::sync().
  void sync();

 private:
  void open(std::span<const CsvField> row);
  void add_columns(std::span<const std::string> names);

  std::filesystem::path path_;
  std::vector<std::string> columns_;
  std::optional<AppendFile> file_;
};

}  // namespace trainctl::report
