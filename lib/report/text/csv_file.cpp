#include "report/text/csv_file.hpp"

#include "report/text/table.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace trainctl::report {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

}  // namespace

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
    // A last line that a dying process cut off must not swallow the next one.
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
