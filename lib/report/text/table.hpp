#pragma once

#include "base/files.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {

/// A column by its header. Numbers stand to the right, words by left() to the left.
struct Column {
  Column(std::string name, Align side = Align::right)  // NOLINT(*-explicit-*)
      : header(std::move(name)), align(side) {}
  Column(const char* name) : header(name) {}  // NOLINT(*-explicit-*)

  std::string header;
  Align align = Align::right;
};
inline Column left(std::string header) { return {std::move(header), Align::left}; }

/// Cells of text under headers; rendered for a terminal, for a web page and for a spreadsheet.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell a column; missing ones are empty.
  void add(std::vector<std::string> cells);
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Header, rule, rows; columns two spaces apart; each line ends with a newline and has no trailing
/// space.
std::string to_text(const Table& table, const Style& style);
/// GitHub's table syntax; a | in a cell is escaped.
std::string to_markdown(const Table& table);
/// RFC 4180, with \n as the line end.
std::string to_csv(const Table& table);

/// One line of a terminal table without the newline: a leading space, cells padded to `widths`, two
/// spaces between.
std::string text_line(std::span<const std::string> cells, std::span<const Column> columns,
                      std::span<const int> widths);
/// A rule below a header of the given widths.
std::string rule_line(std::span<const int> widths, const Style& style);

/// RFC 4180: quoted where it holds a comma, a quote, a line end or outer space.
std::string csv_cell(const std::string& text);
std::string csv_line(std::span<const std::string> cells);

struct CsvField {
  std::string name;
  std::string cell;
};

/// Splits off the first line of a text.
std::string_view next_line(std::string_view& text);
/// The number of a cell; NaN where it is none.
double cell_number(std::string_view cell);
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
