#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/html/charts.hpp"
#include "report/html/line_chart.hpp"
#include "report/html/page.hpp"
#include "report/html/study_pages.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::report {
namespace {

std::vector<double> numbers_at(const Json& object, std::string_view key) {
  std::vector<double> numbers;
  const Json& list = member(object, key);
  if (!list.is_array()) return numbers;
  for (const Json& value : list)
    numbers.push_back(value.is_number() ? value.get<double>() : std::nan(""));
  return numbers;
}

std::optional<double> known(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

IntervalRows::Row speedup_row(const Json& row, std::string_view key) {
  const Json& speedup = member(row, key);
  const std::vector<double> interval = numbers_at(speedup, "ci95");
  IntervalRows::Row drawn{.name = text_at(row, "technique"),
                          .value = known(number_at(speedup, "value")),
                          .low = std::nullopt,
                          .high = std::nullopt};
  if (interval.size() == 2) {
    drawn.low = known(interval[0]);
    drawn.high = known(interval[1]);
  }
  return drawn;
}

IntervalRows::Row total_row(const Json& row) {
  const Json& total = member(row, "total_s");
  return {.name = text_at(row, "technique"),
          .value = known(number_at(total, "median")),
          .low = known(number_at(total, "q1")),
          .high = known(number_at(total, "q3")),
          .points = numbers_at(row, "repeats_s")};
}

Html speedups_of(const Json& rows) {
  IntervalRows total{
      .title = "Total time, its quartiles and repeats", .x_label = "seconds", .rows = {}};
  IntervalRows speedup{.title = "Speed-up of the total time, 95 % interval",
                       .x_label = "times as fast",
                       .rows = {},
                       .reference = 1};
  IntervalRows epochs{.title = "Speed-up of the epochs, 95 % interval",
                      .x_label = "times as fast",
                      .rows = {},
                      .reference = 1};
  for (const Json& row : rows) {
    total.rows.push_back(total_row(row));
    speedup.rows.push_back(speedup_row(row, "speedup"));
    epochs.rows.push_back(speedup_row(row, "epoch_speedup"));
  }
  return cards({interval_rows(total), interval_rows(speedup), interval_rows(epochs)});
}

Html curves_of(const Json& rows) {
  LineChart loss{.title = "Training loss", .x_label = "epoch", .y_label = "loss", .series = {}};
  loss.scale = AxisScale::automatic;
  LineChart time{
      .title = "Seconds of each epoch", .x_label = "epoch", .y_label = "seconds", .series = {}};
  time.y_from = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [chart, key] : {std::pair{&loss, "loss"}, std::pair{&time, "epoch_s"}}) {
      Series series{.name = text_at(rows[i], "technique"), .x = {}, .y = {}, .colour = i};
      series.y = numbers_at(rows[i], key);
      for (std::size_t e = 0; e < series.y.size(); ++e)
        series.x.push_back(static_cast<double>(e + 1));
      chart->series.push_back(std::move(series));
    }
  }
  return cards({line_chart(loss), line_chart(time)});
}

std::string same_text(const Json& value) {
  if (!value.is_boolean()) return "?";
  return value.get<bool>() ? "same" : "differ";
}

Html table_of(const Json& rows) {
  Table table({{"technique", Align::left},
               {"total s"},
               {"quartiles"},
               {"steady epoch s"},
               {"samples/s"},
               {"speed-up"},
               {"95 %"},
               {"final loss"},
               {"batches", Align::left},
               {"losses", Align::left},
               {"failure", Align::left}});
  for (const Json& row : rows) {
    const auto cell = [](const std::optional<double>& value) {
      return value ? metric_text(*value) : std::string("-");
    };
    const IntervalRows::Row total = total_row(row);
    const IntervalRows::Row speedup = speedup_row(row, "speedup");
    const std::vector<double> losses = numbers_at(row, "loss");
    const double rate = number_at(row, "samples_per_s");
    table.add(
        {total.name, cell(total.value), cell(total.low) + " to " + cell(total.high),
         cell(known(number_at(row, "steady_epoch_s"))), std::isnan(rate) ? "-" : rate_text(rate),
         cell(speedup.value), speedup.low ? cell(speedup.low) + " to " + cell(speedup.high) : "-",
         losses.empty() ? "-" : metric_text(losses.back()), same_text(member(row, "same_batches")),
         same_text(member(row, "same_losses")), text_at(member(row, "failure"), "message")});
  }
  return html_table(table);
}

}  // namespace

std::string bench_page(const Json& bench, const std::string& title) {
  const Json& rows = member(bench, "rows");
  ENSURE(config, schema_of(bench).starts_with("trainctl.bench/") && rows.is_array(),
         "{} is no bench: 'rows' and the schema trainctl.bench/1 were expected", printable(title));
  Page page;
  page.title = title;
  page.subtitle = "bench of " + text_at(bench, "config");
  const double repeats = number_at(bench, "repeats");
  page.facts = {{"techniques", std::to_string(rows.size())},
                {"repeats", repeats > 0 ? exact_text(repeats) : ""},
                {"baseline", text_at(bench, "baseline")}};
  page.sections = {{"speed", "Time and speed-up", speedups_of(rows)},
                   {"rows", "Rows", table_of(rows)},
                   {"curves", "Epochs", curves_of(rows)}};
  page.footer = "Made by trainctl report.";
  return render(page);
}

}  // namespace trainctl::report
