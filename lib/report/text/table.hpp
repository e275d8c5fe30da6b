#pragma once

#include "base/files.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {

/// A column with its header. Numbers are right-aligned; left() makes a left-aligned column.
struct Column {
  Column(std::string name, Align side = Align::right)  // NOLINT(*-explicit-*)
      : header(std::move(name)), align(side) {}
  Column(const char* name) : header(name) {}  // NOLINT(*-explicit-*)

  std::string header;
  Align align = Align::right;
};
inline Column left(std::string header) { return {std::move(header), Align::left}; }

/// Text cells with headers; rendered for a terminal, for a web page and for a spreadsheet.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row with one cell per column; missing cells are empty.
  void add(std::vector<std::string> cells);
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Renders header, rule and rows, with columns two spaces apart; each line ends with a newline and
/// has no trailing space.
std::string to_text(const Table& table, const Style& style);
/// Renders GitHub's table syntax; a | in a cell is escaped.
std::string to_markdown(const Table& table);
/// Renders RFC 4180 CSV, with
///  as the line end.
std::string to_csv(const Table& table);

/// Returns one line of a terminal table without the newline: a leading space, cells padded to
/// `widths`, two spaces between cells.
std::string text_line(std::span<const std::string> cells, std::span<const Column> columns,
                      std::span<const int> widths);
/// Returns a rule below a header with the given widths.
std::string rule_line(std::span<const int> widths, const Style& style);

/// Quotes a cell by RFC 4180 if it contains a comma, a quote, a line end or outer space.
std::string csv_cell(const std::string& text);
std::string csv_line(std::span<const std::string> cells);

/// A cell of a CSV row with the name of its column.
struct CsvField {
  std::string name;
  std::string cell;
};

/// Removes the first line from the text and returns it.
std::string_view next_line(std::string_view& text);
/// Parses the number in a cell; NaN if the cell has no number.
double cell_number(std::string_view cell);
/// Returns the cells of one line; the inverse of csv_line() for cells without line ends.
std::vector<std::string> csv_cells(std::string_view line);

/// A CSV file to which rows are appended, each with one write(). An existing file is continued with
/// the columns of its header. A new column is added at the end of every line, empty in the old
/// rows.
class CsvFile {
 public:
  explicit CsvFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// Appends the row completely or not at all: throws Error(resource) when the file cannot be
  /// written.
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
