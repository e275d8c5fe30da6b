#include "config/diagnostics.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "config/secret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace trainctl::config {
namespace {

constexpr int kWidth = 100;
constexpr int kTab = 4;

// One displayed character.
struct Cell {
  std::string text;
  int width = 1;
  std::size_t begin = 0;  // byte offset in the line
};

// East Asian wide characters and emoji occupy two terminal columns.
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

// A line with its marked part, cut to the width of a terminal.
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

/// Returns "mnist.yaml:14:3" with the column in characters; empty for a default value.
std::string place(const Position& position) {
  if (!position.source) return "";
  const std::string name = printable(bounded(without_secrets(position.source->name)));
  if (position.line < 1) return name;
  std::size_t column = zero_based(position.column);
  if (const std::string* line = line_of(position))
    column = std::min(cell_at(cells_of(*line), column), column);
  return fmt::format("{}:{}:{}", name, position.line, column + 1);
}

/// Returns the source line with its number, and the caret with `hint` below; for a hidden line only
/// the hint. Tabs become spaces, control characters are escaped, and long lines are cut around the
/// caret. Empty without a line and a hint.
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

constexpr std::size_t kMostShown = 50;

// Returns the order of the sources in the report: files by their first problem, overrides last.
std::vector<const Source*> source_order(const std::vector<Diagnostic>& all) {
  std::vector<const Source*> order;
  for (const Diagnostic& one : all) {
    const Source* source = one.position.source.get();
    if (std::ranges::find(order, source) == order.end()) order.push_back(source);
  }
  std::ranges::stable_partition(
      order, [](const Source* source) { return source == nullptr || !source->is_override; });
  return order;
}

bool same(const Diagnostic& a, const Diagnostic& b) {
  const auto key = [](const Diagnostic& d) {
    return std::make_tuple(d.position.source.get(), d.position.line, d.position.column, d.message);
  };
  return key(a) == key(b);
}

std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, plural(count));
}

std::string summary(const std::vector<Diagnostic>& all) {
  std::vector<std::string> counts;
  const auto errors = static_cast<std::size_t>(std::ranges::count_if(
      all, [](const Diagnostic& one) { return one.severity == Severity::error; }));
  if (errors > 0) counts.push_back(counted(errors, "error"));
  if (errors < all.size()) counts.push_back(counted(all.size() - errors, "warning"));
  std::vector<std::string> names;
  for (const Source* source : source_order(all)) {
    std::string name = "the config";
    if (source != nullptr)
      name = source->is_override ? "the overrides" : printable(bounded(source->name));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::string where = names.back();
  names.pop_back();
  if (!names.empty()) where = join(names, ", ") + " and " + where;
  return fmt::format("{} in {}\n", join(counts, " and "), where);
}

std::string render_one(const Diagnostic& one, Color color) {
  const bool is_error = one.severity == Severity::error;
  const std::string where = place(one.position);
  const auto paint = [&](const char* code, const std::string& text) {
    return color == Color::on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  std::string text = where.empty() ? "" : paint("1", where + ":") + " ";
  text += paint(is_error ? "1;31" : "1;35", is_error ? "error:" : "warning:") + " ";
  text += paint("1", printable_lines(one.message, "  ")) + "\n";
  if (one.earlier.position.source) {
    if (one.earlier.position.source != one.position.source)
      text += fmt::format("  --> {}\n", place(one.earlier.position));
    text += excerpt(one.earlier.position, one.earlier.text, color);
  }
  return text + excerpt(one.position, one.hint, color);
}

/// Hides the lines with a secret in all diagnostics that point at them.
void hide_secret_lines(std::vector<Diagnostic>& all) {
  std::vector<Position> hidden;
  for (const Diagnostic& one : all) {
    if (one.position.length == kHiddenLine) hidden.push_back(one.position);
  }
  for (Diagnostic& one : all) {
    for (Position* place : {&one.position, &one.earlier.position}) {
      const bool is_hidden = std::ranges::any_of(hidden, [&](const Position& line) {
        return line.source == place->source && line.line == place->line;
      });
      if (is_hidden) place->length = kHiddenLine;
    }
  }
}

}  // namespace

void Diagnostics::error(const Position& position, std::string message, std::string hint) {
  add({Severity::error, position, std::move(message), std::move(hint), {}});
}

void Diagnostics::warning(const Position& position, std::string message, std::string hint) {
  add({Severity::warning, position, std::move(message), std::move(hint), {}});
}

void Diagnostics::add(Diagnostic diagnostic) {
  const bool is_error = diagnostic.severity == Severity::error;
  if (is_error) {
    const Position& at = diagnostic.position;
    if (at.source) bad_places_.emplace(at.source, at.line, at.column);
    kind_ = std::min(kind_, diagnostic.kind);
  }
  int& count = is_error ? errors_ : warnings_;
  truncated_ = truncated_ || count == static_cast<int>(kMostCollected);
  if (count == static_cast<int>(kMostCollected)) return;
  ++count;
  if (diagnostic.hint.empty()) {
    diagnostic.hint = hint_of(diagnostic.message);
    diagnostic.message.resize(without_hint(diagnostic.message).size());
  }
  for (std::string* text : {&diagnostic.message, &diagnostic.hint, &diagnostic.earlier.text})
    *text = bounded(*text);
  all_.push_back(std::move(diagnostic));
}

std::vector<Diagnostic> Diagnostics::sorted() const {
  const std::vector<const Source*> order = source_order(all_);
  const auto key = [&](const Diagnostic& one) {
    const auto source = std::ranges::find(order, one.position.source.get()) - order.begin();
    return std::make_tuple(source, one.position.line, one.position.column);
  };
  std::vector<Diagnostic> sorted = all_;
  std::ranges::stable_sort(sorted, [&](const auto& a, const auto& b) { return key(a) < key(b); });
  const auto repeated = std::ranges::unique(sorted, same);
  sorted.erase(repeated.begin(), repeated.end());
  return sorted;
}

std::string Diagnostics::render(Color color) const {
  std::vector<Diagnostic> all = sorted();
  if (all.empty()) return "";
  hide_secret_lines(all);
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kMostShown); ++i)
    text += render_one(all[i], color);
  if (all.size() > kMostShown) text += fmt::format("... and {} more\n", all.size() - kMostShown);
  text += summary(all);
  if (truncated_) {
    text += fmt::format("The check stopped after {} problems. Fix these first, then check again.\n",
                        with_thousands(static_cast<long long>(kMostCollected)));
  }
  return text;
}

void Diagnostics::throw_if_errors() const {
  if (errors_ > 0) throw Error(kind_, render());
}

}  // namespace trainctl::config
