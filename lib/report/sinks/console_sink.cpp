#include "report/sinks/console_sink.hpp"

#include "report/record/run_files.hpp"
#include "report/sinks/sink.hpp"
#include "report/text/progress_bar.hpp"
#include "report/text/run_summary.hpp"

namespace trainctl::report {
namespace {

using events::EpochEnded;
using events::Timing;

constexpr int kColumnGap = 2;
constexpr int kMarkWidth = 3;

// Priorities for dropping columns: the highest is dropped first.
constexpr int kZeroPart = 100;
constexpr int kTrainMetric = 90;
constexpr int kSmallPart = 80;  // the smallest is dropped first
constexpr int kRate = 70;
constexpr int kLargePart = 60;
constexpr int kTrainLoss = 50;
constexpr int kFurtherMetric = 40;
constexpr int kLargestPart = 30;
constexpr int kOther = 29;
constexpr int kSamples = 20;
constexpr int kFirstMetric = 10;

// Formats a time that fits its column: "2.50 s", then "1:02", "1:02:03".
std::string time_text(double seconds) {
  return seconds < 60 ? human_duration(seconds) : clock_text(seconds);
}

bool is_about_validation(const std::string& metric) { return metric.starts_with("val/"); }

std::string repeat(const char* glyph, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += glyph;
  return text;
}

std::string validation_text(const events::Validated& validated) {
  std::string text =
      fmt::format("epoch {}, step {}:", validated.epoch + 1, with_thousands(validated.global_step));
  for (const auto& [name, value] : validated.metrics)
    text += fmt::format(" {} {}", printable(name), metric_text(value));
  return text + (validated.improved ? " (best)" : "");
}

class ConsoleSink final : public Sink {
 public:
  explicit ConsoleSink(ConsoleOptions options)
      : options_(std::move(options)),
        table_({.metrics = options_.metrics, .style = options_.results_style}),
        bar_({options_.progress, options_.messages_style}, options_.messages) {}

  void on_event(int rank, const events::Event& event) override {
    if (const auto* warning = std::get_if<events::Warning>(&event)) warn(warning->message);
    if (rank != 0) return;
    if (const auto* hello = std::get_if<events::Hello>(&event)) {
      table_.set_transfer_name(transfer_name(hello->device));
    } else if (const auto* weights = std::get_if<events::WeightsSet>(&event)) {
      print_lines(weights_lines(*weights));
    } else if (const auto* started = std::get_if<events::RunStarted>(&event)) {
      max_epochs_ = started->max_epochs;
      table_.set_max_epochs(started->max_epochs);
      table_.show_graphs(started->captures_steps);
      bar_.set_max_epochs(started->max_epochs);
      if (!started->recomputes_why.empty())
        print_lines({"trainer.activation_checkpointing: " + printable(started->recomputes_why)});
    } else if (const auto* resumed = std::get_if<events::Resumed>(&event)) {
      say_where(*resumed);
    } else if (const auto* progress = std::get_if<events::Progress>(&event)) {
      bar_.update(*progress);
    } else if (const auto* validated = std::get_if<events::Validated>(&event)) {
      print_lines({validation_text(*validated)});
    } else if (const auto* epoch = std::get_if<events::EpochEnded>(&event)) {
      bar_.rest();
      options_.results(table_.add(*epoch));
    }
  }

  void on_tick(double now) override { bar_.tick(now); }
  void close() override { bar_.rest(); }
  std::optional<std::string> take_warning() override {
    return options_.take_notice ? options_.take_notice() : std::nullopt;
  }

 private:
  void warn(const std::string& message) {
    bar_.clear();
    options_.messages(paint("warning:", Ink::yellow, options_.messages_style) + " " +
                      printable_lines(bounded(message)) + "\n");
  }

  void say_where(const events::Resumed& resumed) {
    const bool is_over = max_epochs_ > 0 && resumed.epoch >= max_epochs_;
    print_lines(
        {fmt::format("resuming from {}: {}epoch {}, step {}", printable(resumed.path),
                     is_over ? "nothing is left to train after " : "",
                     resumed.epoch + (is_over ? 0 : 1), with_thousands(resumed.global_step))});
    if (!resumed.bitwise)
      warn("the resumed run is not bitwise identical to an uninterrupted one: " + resumed.why_not);
  }

  void print_lines(const std::vector<std::string>& lines) {
    bar_.clear();
    for (const std::string& line : lines)
      options_.messages((&line == &lines.front() ? "" : "  ") + line + "\n");
  }

  ConsoleOptions options_;
  std::int64_t max_epochs_ = 0;  // 0: not known in advance
  EpochTable table_;
  ProgressBar bar_;
};

}  // namespace

std::string EpochTable::epoch_text(std::int64_t epoch) const {
  if (options_.max_epochs <= 0) return std::to_string(epoch + 1);
  return fmt::format("{}/{}", epoch + 1, options_.max_epochs);
}

void EpochTable::add_metric(const std::string& name) {
  const auto cell = [name](const EpochEnded& epoch) {
    const auto value = events::find_metric(epoch.metrics, name);
    return value ? metric_text(*value) : std::string("-");
  };
  const auto first = std::ranges::find_if(options_.metrics, is_about_validation);
  int leave_out = is_about_validation(name) ? kFurtherMetric : kTrainMetric;
  if (name == "train/loss") leave_out = validates() ? kTrainLoss : kFirstMetric;
  if (first != options_.metrics.end() && *first == name) leave_out = kFirstMetric;
  const std::string safe = printable(name);
  fields_.push_back({safe, std::max(display_width(safe), 8), leave_out, cell});
}

bool EpochTable::validates() const {
  return std::ranges::any_of(options_.metrics, is_about_validation);
}

void EpochTable::add_phase(const std::string& header, Seconds seconds) {
  const auto cell = [seconds](const EpochEnded& epoch) {
    return percent_text(epoch.timing.*seconds / epoch.timing.wall_s);
  };
  fields_.push_back({header, std::max(display_width(header), 3), 0, cell, seconds, true});
}

// Adds a column for everything that the other columns do not show.
void EpochTable::add_other() {
  const auto cell = [this](const EpochEnded& epoch) { return percent_text(other_share(epoch)); };
  fields_.push_back({"other", 5, kOther, cell, nullptr, true});
}

double EpochTable::other_share(const EpochEnded& epoch) const {
  double shown_s = 0;
  for (const Field& field : fields_)
    shown_s += field.seconds != nullptr ? epoch.timing.*field.seconds : 0;
  const double rest_s = std::max(epoch.timing.wall_s - shown_s, 0.0);
  return rest_s / epoch.timing.wall_s;
}

// Sets the priorities by the first epoch: the largest part is dropped last. Validation and steps of
// CUDA graphs may start in a later epoch.
void EpochTable::rank_parts(const EpochEnded& first) {
  std::vector<Field*> parts;
  for (Field& field : fields_) {
    if (field.seconds != nullptr) parts.push_back(&field);
  }
  std::ranges::stable_sort(parts, std::ranges::greater(),
                           [&](const Field* f) { return first.timing.*f->seconds; });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int place = static_cast<int>(i);
    parts[i]->leave_out = i == 0 ? kLargestPart : i < 3 ? kLargePart + place : kSmallPart + place;
    const bool may_come = parts[i]->seconds == &Timing::graph_s ||
                          (parts[i]->seconds == &Timing::eval_s && validates());
    if (!(first.timing.*parts[i]->seconds > 0) && !may_come) parts[i]->leave_out = kZeroPart;
  }
}

void EpochTable::choose_fields(const EpochEnded& first) {
  const int epoch_width = std::max(5, display_width(epoch_text(options_.max_epochs - 1)));
  fields_.push_back(
      {"epoch", epoch_width, 0, [this](const EpochEnded& e) { return epoch_text(e.epoch); }});
  if (options_.metrics.empty()) {
    for (const auto& metric : first.metrics) options_.metrics.push_back(metric.first);
  }
  for (const std::string& name : options_.metrics) add_metric(name);
  fields_.push_back(
      {"lr", 8, kRate, [](const EpochEnded& e) { return fmt::format("{:.3g}", e.lr); }});
  fields_.push_back({"time", 7, 0, [](const EpochEnded& e) { return time_text(e.timing.wall_s); }});
  for (const events::TimingPhase& phase : events::kTimingPhases) {
    const bool is_transfer = phase.seconds == &Timing::h2d_s;
    const bool is_graph = phase.seconds == &Timing::graph_s;
    if (!phase.column.empty() && (!is_graph || options_.shows_graphs))
      add_phase(is_transfer ? options_.transfer_name : std::string(phase.column), phase.seconds);
  }
  add_other();
  fields_.push_back({"samples/s", 9, kSamples,
                     [](const EpochEnded& e) { return rate_text(e.timing.samples_per_s); }});
  rank_parts(first);
  fit_width();
}

int EpochTable::total_width() const {
  int width = kMarkWidth;
  for (const Field& field : fields_) width += field.width + kColumnGap;
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

// Returns "|---- % of epoch ----|" above the budget columns; empty if too few columns remain.
std::string EpochTable::budget_bracket() const {
  constexpr int kLabelWidth = 12;
  int start = 1;
  int width = -kColumnGap;
  for (const Field& field : fields_) {
    if (field.budget) width += field.width + kColumnGap;
    if (width < 0) start += field.width + kColumnGap;
  }
  if (width < kLabelWidth) return "";
  const bool unicode = options_.style.glyphs == Glyphs::unicode;
  const int left = (width - kLabelWidth) / 2;
  const char* dash = unicode ? "─" : "-";
  return std::string(static_cast<std::size_t>(start), ' ') + repeat(dash, left) + " % of epoch " +
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
  return paint(budget_bracket(), Ink::dim, style) +
         paint(clip(line(names), style.width), Ink::bold, style) + '\n' +
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
  text += clip(line(cells), options_.style.width - kMarkWidth);
  if (epoch.improved) {
    const char* mark = options_.style.glyphs == Glyphs::unicode ? "★" : "*";
    text += "  " + paint(mark, Ink::green, options_.style);
  }
  return text + '\n';
}

std::unique_ptr<Sink> make_console_sink(ConsoleOptions options) {
  return std::make_unique<ConsoleSink>(std::move(options));
}

}  // namespace trainctl::report
