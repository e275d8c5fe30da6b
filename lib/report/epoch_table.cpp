#include "report/epoch_table.hpp"

#include "base/strings.hpp"
#include "report/record.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::report {
namespace {

using events::EpochEnded;
using events::Timing;

constexpr int kGap = 2;
constexpr int kMarkWidth = 3;
constexpr int kSeldomUseful = 100;  // added to leave_out of a budget column that is zero

std::string repeat(const char* glyph, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += glyph;
  return text;
}

}  // namespace

std::string EpochTable::epoch_text(std::int64_t epoch) const {
  if (options_.max_epochs <= 0) return fmt::format("{}", epoch + 1);
  return fmt::format("{}/{}", epoch + 1, options_.max_epochs);
}

void EpochTable::add_metric(const std::string& name) {
  const auto cell = [name](const EpochEnded& epoch) {
    const auto value = find_metric(epoch.metrics, name);
    return value ? metric_text(*value) : std::string("-");
  };
  const std::string safe = printable(name);
  fields_.push_back({{safe}, std::max(display_width(safe), 8), 0, cell});
}

void EpochTable::add_budget(const char* header, int leave_out, const EpochEnded& first,
                            double (*seconds)(const Timing&)) {
  const auto cell = [seconds](const EpochEnded& epoch) {
    const double wall_s = epoch.timing.wall_s;
    return wall_s > 0 ? percent_text(seconds(epoch.timing) / wall_s) : std::string("-");
  };
  const int rank = seconds(first.timing) > 0 ? leave_out : leave_out + kSeldomUseful;
  fields_.push_back({{header}, std::max(display_width(header), 3), rank, cell, true});
}

void EpochTable::choose_fields(const EpochEnded& first) {
  const int epoch_width = std::max(5, display_width(epoch_text(options_.max_epochs - 1)));
  fields_.push_back({{"epoch"}, epoch_width, 0, [this](const EpochEnded& e) { return epoch_text(e.epoch); }});
  if (options_.metrics.empty()) {
    for (const auto& metric : first.metrics) options_.metrics.push_back(metric.first);
  }
  for (const std::string& name : options_.metrics) add_metric(name);
  fields_.push_back({{"lr"}, 7, 1, [](const EpochEnded& e) { return fmt::format("{:.4g}", e.lr); }});
  fields_.push_back({{"time"}, 8, 0, [](const EpochEnded& e) { return human_duration(e.timing.wall_s); }});
  add_budget("data", 3, first, [](const Timing& t) { return t.data_wait_s; });
  add_budget("h2d", 9, first, [](const Timing& t) { return t.h2d_s; });
  add_budget("fwd", 5, first, [](const Timing& t) { return t.forward_s; });
  add_budget("bwd", 4, first, [](const Timing& t) { return t.backward_s; });
  add_budget("sync", 10, first, [](const Timing& t) { return t.allreduce_exposed_s; });
  add_budget("opt", 7, first, [](const Timing& t) { return t.optimizer_s; });
  add_budget("eval", 8, first, [](const Timing& t) { return t.eval_s; });
  add_budget("other", 6, first, [](const Timing& t) { return t.other_s + t.checkpoint_s; });
  fields_.push_back({{"samples/s"}, 9, 2, [](const EpochEnded& e) { return rate_text(e.timing.samples_per_s); }});
  fit_width();
}

int EpochTable::total_width() const {
  int width = kMarkWidth;
  for (const Field& field : fields_) width += field.width + kGap;
  return width - 1;
}

void EpochTable::fit_width() {
  while (total_width() > options_.style.width) {
    const auto least = std::ranges::max_element(fields_, {}, &Field::leave_out);
    if (least->leave_out == 0) return;
    fields_.erase(least);
  }
}

std::string EpochTable::line(const std::vector<std::string>& cells) const {
  std::vector<Column> columns;
  std::vector<int> widths;
  for (const Field& field : fields_) {
    columns.push_back(field.column);
    widths.push_back(field.width);
  }
  return text_line(cells, columns, widths);
}

// "|---- % of time ----|" above the budget columns; empty where too few are left.
std::string EpochTable::budget_bracket() const {
  constexpr int kLabelWidth = 11;
  int start = 1;
  int width = -kGap;
  for (const Field& field : fields_) {
    if (field.budget) width += field.width + kGap;
    if (width < 0) start += field.width + kGap;
  }
  if (width < kLabelWidth) return "";
  const bool unicode = options_.style.glyphs == Glyphs::unicode;
  const int left = (width - kLabelWidth) / 2;
  const char* dash = unicode ? "─" : "-";
  return std::string(static_cast<std::size_t>(start), ' ') + repeat(dash, left) + " % of time " +
         repeat(dash, width - kLabelWidth - left) + '\n';
}

std::string EpochTable::header() const {
  std::vector<std::string> names;
  std::vector<int> widths;
  for (const Field& field : fields_) {
    names.push_back(field.column.header);
    widths.push_back(field.width);
  }
  const Style& style = options_.style;
  return paint(budget_bracket(), Ink::dim, style) + paint(line(names), Ink::bold, style) + '\n' +
         paint(rule_line(widths, style), Ink::dim, style) + '\n';
}

std::string EpochTable::add(const EpochEnded& epoch) {
  std::string text;
  if (fields_.empty()) {
    choose_fields(epoch);
    text = header();
  }
  std::vector<std::string> cells;
  for (const Field& field : fields_) cells.push_back(field.cell(epoch));
  text += line(cells);
  if (epoch.improved) {
    const char* mark = options_.style.glyphs == Glyphs::unicode ? "★" : "*";
    text += "  " + paint(mark, Ink::green, options_.style);
  }
  return text + '\n';
}

}  // namespace trainctl::report
