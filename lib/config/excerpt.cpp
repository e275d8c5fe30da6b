#include "config/excerpt.hpp"

#include "base/bounded_text.hpp"
#include "base/strings.hpp"
#include "config/secret_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

namespace trainctl::config {
namespace {

constexpr int kWidth = 100;
constexpr int kTab = 4;

// One character as it is shown.
struct Cell {
  std::string text;
  int width = 1;
  std::size_t begin = 0;  // bytes in the line
};

// East Asian wide characters and emoji take two columns of a terminal.
int display_width(std::string_view character) {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(character[i]));
  };
  unsigned code = 0;
  if (character.size() == 3)
    code = (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  if (character.size() == 4) {
    code =
        (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
  constexpr unsigned kWide[][2] = {{0x1100, 0x115F}, {0x2E80, 0xA4CF},   {0xAC00, 0xD7A3},
                                   {0xF900, 0xFAFF}, {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
                                   {0xFFE0, 0xFFE6}, {0x1F300, 0x1FAFF}, {0x20000, 0x3FFFD}};
  return std::ranges::any_of(
             kWide, [&](const auto& range) { return code >= range[0] && code <= range[1]; })
             ? 2
             : 1;
}

std::vector<Cell> cells_of(std::string_view line) {
  std::vector<Cell> cells;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t length = std::max<std::size_t>(utf8_length(line.substr(at)), 1);
    const std::string_view character = line.substr(at, length);
    std::string text = character == "\t" ? std::string(kTab, ' ') : printable(character);
    const int width = text == character ? display_width(character) : static_cast<int>(text.size());
    cells.push_back({std::move(text), width, at});
    at += length;
  }
  return cells;
}

int width_of(const std::vector<Cell>& cells, std::size_t begin, std::size_t end) {
  return std::accumulate(cells.begin() + static_cast<std::ptrdiff_t>(begin),
                         cells.begin() + static_cast<std::ptrdiff_t>(end), 0,
                         [](int sum, const Cell& cell) { return sum + cell.width; });
}

std::size_t cell_at(const std::vector<Cell>& cells, std::size_t byte) {
  const auto found =
      std::ranges::find_if(cells, [&](const Cell& cell) { return cell.begin >= byte; });
  return static_cast<std::size_t>(found - cells.begin());
}

// A line and the part of it that is marked, cut to the width of a terminal.
struct View {
  std::string text;
  int caret = 0;
  int length = 1;
};

View view_of(const std::string& line, std::size_t byte, std::size_t bytes) {
  const std::vector<Cell> cells = cells_of(line);
  const std::size_t caret = std::min(cell_at(cells, byte), cells.size());
  std::size_t begin = 0;
  std::size_t end = cells.size();
  if (width_of(cells, 0, end) > kWidth) {
    begin = caret > kWidth / 3 ? caret - kWidth / 3 : 0;
    end = begin;
    for (int width = 0; end < cells.size() && width + cells[end].width <= kWidth; ++end)
      width += cells[end].width;
  }
  View view;
  if (begin > 0) view.text = "...";
  view.caret = static_cast<int>(view.text.size()) + width_of(cells, begin, caret);
  for (std::size_t i = begin; i < end; ++i) view.text += cells[i].text;
  if (end < cells.size()) view.text += "...";
  const std::size_t marked = std::clamp(cell_at(cells, byte + bytes), caret, std::max(caret, end));
  view.length = std::max(1, width_of(cells, caret, marked));
  return view;
}

const std::string* line_of(const Position& position) {
  if (!position.source || position.line < 1) return nullptr;
  const auto index = static_cast<std::size_t>(position.line - 1);
  return index < position.source->lines.size() ? &position.source->lines[index] : nullptr;
}

std::size_t zero_based(int column) { return static_cast<std::size_t>(std::max(column, 1) - 1); }

}  // namespace

std::string place(const Position& position) {
  if (!position.source) return "";
  const std::string name = printable(bounded(without_secrets(position.source->name)));
  if (position.line < 1) return name;
  const std::string* line = line_of(position);
  const std::size_t byte = zero_based(position.column);
  std::size_t column = byte;
  if (line != nullptr) {
    const std::vector<Cell> cells = cells_of(*line);
    column = std::min(cell_at(cells, byte), byte);
  }
  return fmt::format("{}:{}:{}", name, position.line, column + 1);
}

std::string excerpt(const Position& position, const std::string& hint, Color color) {
  const std::string* line = line_of(position);
  if (line == nullptr || position.length == kHiddenLine)
    return hint.empty() ? "" : fmt::format("      | {}\n", printable(hint));
  const View view =
      view_of(line_without_secrets(position.source->lines, zero_based(position.line)),
              zero_based(position.column), static_cast<std::size_t>(std::max(position.length, 1)));
  std::string caret = "^" + std::string(static_cast<std::size_t>(view.length - 1), '~');
  if (color == Color::on) caret = "\x1b[1;32m" + caret + "\x1b[0m";
  if (!hint.empty()) caret += " " + printable(hint);
  return fmt::format("{:>5} | {}\n      | {}{}\n", position.line, view.text,
                     std::string(static_cast<std::size_t>(view.caret), ' '), caret);
}

}  // namespace trainctl::config
