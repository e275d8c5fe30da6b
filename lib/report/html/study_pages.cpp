#include "report/html/study_pages.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/html/charts.hpp"
#include "report/html/curves.hpp"
#include "report/html/line_chart.hpp"
#include "report/html/page.hpp"
#include "report/html/run_page.hpp"
#include "report/text/format.hpp"

#include <cmath>

namespace trainctl::report {
namespace {

std::vector<CurveSeries> strands_of(const RunComparison& compared) {
  std::vector<CurveSeries> strands;
  for (std::size_t g = 0; g < compared.groups.size(); ++g) {
    const Group& group = compared.groups[g];
    for (const RunFiles& run : group.runs) {
      const std::string seed = run.value("seed").value_or("?");
      const bool many = group.runs.size() > 1;
      strands.push_back({.name = many ? group.label + ", seed " + seed : group.label,
                         .epochs = &run.epochs,
                         .color = g,
                         .look = group.runs.size() > 4 ? LineLook::faint : LineLook::solid});
    }
  }
  return strands;
}

Html config_section(const RunComparison& compared) {
  std::vector<Column> columns{left("key")};
  for (const Group& group : compared.groups) columns.push_back(left(group.label));
  Table table(columns);
  for (const ConfigDifference& difference : config_differences(compared)) {
    std::vector<std::string> cells{difference.key};
    cells.insert(cells.end(), difference.values.begin(), difference.values.end());
    table.add(std::move(cells));
  }
  if (compared.kind != "runs") return {};
  return table.rows().empty() ? paragraph("The configs are the same.") : html_table(table);
}

std::string mean_text(const std::vector<double>& values) {
  return values.empty() ? "" : metric_text(mean(values));
}

std::string difference_cell(const std::optional<MeanDifference>& difference) {
  if (!difference) return "";
  std::string text = metric_text(difference->difference);
  if (difference->difference > 0) text = "+" + text;
  if (difference->ci95)
    text += fmt::format(" [{}, {}]", metric_text(difference->ci95->low),
                        metric_text(difference->ci95->high));
  if (difference->base != 0 && std::isfinite(difference->difference))
    text += fmt::format(" ({:+.1f} %)", 100 * difference->difference / std::abs(difference->base));
  return text;
}

Html measures_section(const RunComparison& compared) {
  std::vector<Column> columns{left("measure"), {compared.groups.front().label}};
  for (std::size_t i = 1; i < compared.groups.size(); ++i) {
    columns.push_back({compared.groups[i].label});
    columns.push_back({"compared with " + compared.groups.front().label});
  }
  Table table(columns);
  for (const std::string& name : measure_names(compared)) {
    const auto values = values_of(compared, name);
    const auto differences = differences_of(compared, name);
    std::vector<std::string> cells{name, mean_text(values[0])};
    for (std::size_t i = 1; i < values.size(); ++i) {
      cells.push_back(mean_text(values[i]));
      cells.push_back(difference_cell(differences[i - 1]));
    }
    table.add(std::move(cells));
  }
  const bool many = std::ranges::any_of(
      compared.groups, [](const Group& group) { return group.members.size() > 1; });
  const Html note = many ? paragraph(
                               "Means over the runs of a group. In brackets: 95 % confidence "
                               "interval of the difference (Student's t; from pairs of runs if "
                               "the groups have the same seeds).")
                         : Html();
  return note + html_table(table);
}

Html time_section(const RunComparison& compared) {
  StackedBars bars{
      .title = "Time of an epoch, without the first", .x_label = "run", .y_label = "seconds"};
  const std::vector<const RunFiles*> runs = runs_of(compared);
  for (const events::TimingPhase& phase : events::kTimingPhases)
    bars.parts.push_back({phase_label(phase, runs), {}});
  for (const Group& group : compared.groups) {
    for (const RunFiles& run : group.runs) {
      if (run.epochs.empty()) continue;
      const auto steady = without_first<events::EpochEnded>(run.epochs);
      const events::Timing sum = sum_timing(steady);
      bars.bars.push_back(group.label);
      for (std::size_t p = 0; p < bars.parts.size(); ++p)
        bars.parts[p].values.push_back(sum.*events::kTimingPhases[p].seconds /
                                       static_cast<double>(steady.size()));
    }
  }
  std::vector<Html> figures{stacked_bars(bars), strand_throughput(strands_of(compared))};
  return cards(figures);
}

Html runs_section(const RunComparison& compared) {
  Table table({left("group"), left("run"), "seed", left("end"), left("folder")});
  for (const Group& group : compared.groups) {
    for (const RunFiles& run : group.runs)
      table.add({group.label, run.name, run.value("seed").value_or(""), status_of(run).text,
                 run.folder.string()});
  }
  return table.rows().empty() ? Html() : html_table(table);
}

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
                          .value = known(number_at(speedup, "value"))};
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
  IntervalRows total{.title = "Total time: median, quartiles and repeats", .x_label = "seconds"};
  IntervalRows speedup{.title = "Speed-up of the total time, 95 % interval",
                       .x_label = "times as fast",
                       .reference = 1};
  IntervalRows epochs{
      .title = "Speed-up of the epochs, 95 % interval", .x_label = "times as fast", .reference = 1};
  for (const Json& row : rows) {
    total.rows.push_back(total_row(row));
    speedup.rows.push_back(speedup_row(row, "speedup"));
    epochs.rows.push_back(speedup_row(row, "epoch_speedup"));
  }
  return cards({interval_rows(total), interval_rows(speedup), interval_rows(epochs)});
}

Html curves_of(const Json& rows) {
  LineChart loss{.title = "Training loss", .x_label = "epoch", .y_label = "loss"};
  loss.scale = AxisScale::automatic;
  LineChart time{.title = "Seconds of each epoch", .x_label = "epoch", .y_label = "seconds"};
  time.y_from = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [chart, key] : {std::pair{&loss, "loss"}, std::pair{&time, "epoch_s"}}) {
      Series series{.name = text_at(rows[i], "technique"), .color = i};
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
  Table table({left("settings"), "total s", "quartiles", "epoch s, without the first", "samples/s",
               "speed-up", "95 % interval", "final loss", left("batches"), left("losses"),
               left("failure")});
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

std::string comparison_page(const RunComparison& compared) {
  Page page;
  page.notes = machine_warnings(compared);
  std::vector<std::string> labels;
  for (const Group& group : compared.groups) {
    labels.push_back(group.label);
    for (const RunFiles& run : group.runs) {
      for (const std::string& note : run.notes) page.notes.push_back(group.label + ": " + note);
    }
  }
  page.title = join(labels, " and ");
  page.subtitle = fmt::format("comparison of {} {}", compared.groups.size(),
                              compared.kind == "runs" ? "runs or groups of runs" : "benches");
  const bool runs = compared.kind == "runs";
  page.sections = {{"measures", "Results", measures_section(compared)},
                   {"config", "Different settings", config_section(compared)},
                   {"metrics", "Loss and metrics", cards(strand_figures(strands_of(compared), 24))},
                   {"time", "Time of an epoch", runs ? time_section(compared) : Html()},
                   {"runs", "Runs", runs_section(compared)}};
  page.footer = "Generated by trainctl compare.";
  return render(page);
}

std::string bench_page(const Json& bench, const std::string& title) {
  const Json& rows = member(bench, "rows");
  ENSURE(config, schema_of(bench).starts_with("trainctl.bench/") && rows.is_array(),
         "{} is not a saved benchmark: 'rows' must be a list", printable(title));
  Page page;
  page.title = title;
  page.subtitle = "bench of " + text_at(bench, "config");
  const double repeats = number_at(bench, "repeats");
  page.facts = {{"settings", std::to_string(rows.size())},
                {"repeats", repeats > 0 ? exact_text(repeats) : ""},
                {"baseline", text_at(bench, "baseline")}};
  page.sections = {{"speed", "Time and speed-up", speedups_of(rows)},
                   {"rows", "Rows", table_of(rows)},
                   {"curves", "Epochs", curves_of(rows)}};
  page.footer = "Generated by trainctl report.";
  return render(page);
}

}  // namespace trainctl::report
