#include "report/text/table.hpp"

#include "base/numbers.hpp"

#include <cmath>
#include <numeric>

namespace trainctl::report {
namespace {

constexpr int kGap = 2;

std::vector<int> natural_widths(const Table& table) {
  std::vector<int> widths;
  for (std::size_t i = 0; i < table.columns().size(); ++i) {
    int width = display_width(table.columns()[i].header);
    for (const auto& row : table.rows()) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  return widths;
}

std::vector<std::string> headers(const Table& table) {
  std::vector<std::string> names;
  for (const Column& column : table.columns()) names.push_back(column.header);
  return names;
}

std::string markdown_line(std::span<const std::string> cells) {
  std::string line = "|";
  for (const std::string& cell : cells) {
    line += ' ';
    for (const char c : cell) {
      if (c == '|') line += '\\';
      line += c;
    }
    line += " |";
  }
  return line + '\n';
}

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

}  // namespace

void Table::add(std::vector<std::string> cells) {
  ASSERT(cells.size() <= columns_.size());
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string text_line(std::span<const std::string> cells, std::span<const Column> columns,
                      std::span<const int> widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i)
    line += std::string(i == 0 ? 1 : kGap, ' ') + pad(cells[i], widths[i], columns[i].align);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string rule_line(std::span<const int> widths, const Style& style) {
  const int count =
      std::accumulate(widths.begin(), widths.end(), kGap * static_cast<int>(widths.size()));
  std::string line;
  for (int i = 0; i < count; ++i) line += style.glyphs == Glyphs::unicode ? "─" : "-";
  return line;
}

std::string to_text(const Table& table, const Style& style) {
  const std::vector<int> widths = natural_widths(table);
  std::string text =
      paint(text_line(headers(table), table.columns(), widths), Ink::bold, style) + '\n';
  text += paint(rule_line(widths, style), Ink::dim, style) + '\n';
  for (const auto& row : table.rows()) text += text_line(row, table.columns(), widths) + '\n';
  return text;
}

std::string to_markdown(const Table& table) {
  std::string text = markdown_line(headers(table)) + "|";
  for (const Column& column : table.columns())
    text += column.align == Align::left ? " --- |" : " ---: |";
  text += '\n';
  for (const auto& row : table.rows()) text += markdown_line(row);
  return text;
}

std::string csv_cell(const std::string& text) {
  const bool outer_space = !text.empty() && (text.front() == ' ' || text.back() == ' ');
  if (!outer_space && text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string csv_line(std::span<const std::string> cells) {
  std::vector<std::string> quoted;
  for (const std::string& cell : cells) quoted.push_back(csv_cell(cell));
  return join(quoted, ",");
}

std::string to_csv(const Table& table) {
  std::string text = csv_line(headers(table)) + '\n';
  for (const auto& row : table.rows()) text += csv_line(row) + '\n';
  return text;
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

double cell_number(std::string_view cell) {
  return parse_number<double>(cell).value_or(std::nan(""));
}

std::vector<std::string> csv_cells(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      const bool doubled = quoted && i + 1 < line.size() && line[i + 1] == '"';
      if (doubled) cells.back() += line[++i];
      if (!doubled) quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else if (line[i] != '\r') {
      cells.back() += line[i];
    }
  }
  return cells;
}

void CsvFile::open(std::span<const CsvField> row) {
  std::error_code ignored;
  const bool exists = fs::file_size(path_, ignored) > 0 && !ignored;
  if (exists) {
    const std::string text = read_file(path_, kMaxBytes, ReadFailure::resource);
    columns_ = csv_cells(std::string_view(text).substr(0, text.find('\n')));
    // Completes a last line that was truncated by a crash, so that the next line starts on its own.
    if (text.back() != '\n') write_atomically(path_, text + '\n');
  }
  AppendFile file(path_);
  if (!exists) {
    columns_.clear();
    for (const CsvField& field : row) columns_.push_back(field.name);
    file.append_line(csv_line(columns_));
  }
  file_.emplace(std::move(file));
}

void CsvFile::add_columns(std::span<const std::string> names) {
  const std::string text = read_file(path_, kMaxBytes, ReadFailure::resource);
  const std::size_t header_end = text.find('\n');
  std::string wider = text.substr(0, header_end) + ',' + csv_line(names);
  for (std::size_t i = header_end; i < text.size(); ++i) {
    if (text[i] == '\n' && i > header_end) wider.append(names.size(), ',');
    wider += text[i];
  }
  file_.reset();
  write_atomically(path_, wider);
  columns_.insert(columns_.end(), names.begin(), names.end());
  file_.emplace(path_);
}

void CsvFile::append(std::span<const CsvField> row) {
  if (!file_) open(row);
  std::vector<std::string> missing;
  for (const CsvField& field : row) {
    if (std::ranges::find(columns_, field.name) == columns_.end()) missing.push_back(field.name);
  }
  if (!missing.empty()) add_columns(missing);
  std::vector<std::string> cells;
  for (const std::string& column : columns_) {
    const auto field = std::ranges::find(row, column, &CsvField::name);
    cells.push_back(field == row.end() ? std::string() : field->cell);
  }
  file_->append_line(csv_line(cells));
}

void CsvFile::sync() {
  if (file_) file_->sync();
}

}  // namespace trainctl::report
