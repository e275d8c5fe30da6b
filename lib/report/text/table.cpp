#include "report/text/table.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <algorithm>
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

}  // namespace

void Table::add(std::vector<std::string> cells) {
  ASSERT(cells.size() <= columns_.size());
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string text_line(std::span<const std::string> cells, std::span<const Column> columns,
                      std::span<const int> widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += std::string(i == 0 ? 1 : kGap, ' ') + pad(cells[i], widths[i], columns[i].align);
  }
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

}  // namespace trainctl::report
