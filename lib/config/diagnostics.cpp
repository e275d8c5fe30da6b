#include "config/diagnostics.hpp"

#include "base/bounded_text.hpp"
#include "base/strings.hpp"
#include "config/excerpt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

namespace trainctl::config {
namespace {

constexpr std::size_t kMostShown = 50;

// Where a diagnostic stands in the report: files in the order in which they were first complained
// about, overrides last.
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
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
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

bool is_same_line(const Position& a, const Position& b) {
  return a.source == b.source && a.line == b.line;
}

/// Hides the lines with a secret under all diagnostics that point at them.
void hide_secret_lines(std::vector<Diagnostic>& all) {
  std::vector<Position> hidden;
  for (const Diagnostic& one : all) {
    if (one.position.length == kHiddenLine) hidden.push_back(one.position);
  }
  for (Diagnostic& one : all) {
    for (Position* place : {&one.position, &one.earlier.position}) {
      if (std::ranges::any_of(hidden, [&](const auto& each) { return is_same_line(each, *place); }))
        place->length = kHiddenLine;
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
    if (diagnostic.position.source) bad_places_.insert(diagnostic.position);
    kind_ = std::min(kind_, diagnostic.kind);
  }
  int& count = is_error ? errors_ : warnings_;
  truncated_ = truncated_ || count == static_cast<int>(kMostCollected);
  if (count == static_cast<int>(kMostCollected)) return;
  ++count;
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
    text += fmt::format("There are more: the check stops collecting after {}. Mend these first.\n",
                        with_thousands(static_cast<long long>(kMostCollected)));
  }
  return text;
}

void Diagnostics::throw_if_errors() const {
  if (errors_ > 0) throw Error(kind_, render());
}

std::size_t Diagnostics::PlaceHash::operator()(const Position& position) const {
  const auto line = static_cast<std::size_t>(position.line);
  return std::hash<const Source*>()(position.source.get()) ^ (line << 20) ^
         static_cast<std::size_t>(position.column);
}

bool Diagnostics::SamePlace::operator()(const Position& a, const Position& b) const {
  return a.source == b.source && a.line == b.line && a.column == b.column;
}

}  // namespace trainctl::config
