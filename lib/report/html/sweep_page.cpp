#include "report/html/sweep_page.hpp"

#include "base/numbers.hpp"
#include "report/html/charts.hpp"
#include "report/html/curves.hpp"
#include "report/html/page.hpp"
#include "report/html/run_page.hpp"
#include "report/search/sweep.hpp"

namespace trainctl::report {
namespace {

/// Pairs of a key of the experiment file and its value.
using OverrideList = std::vector<std::pair<std::string, std::string>>;

std::string plain_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : to_line(value);
}

/// Returns the overrides of a run or a summary row: {"overrides": {"optimizer.lr": 0.1}} or
/// {"overrides": ["optimizer.lr=0.1"]}.
OverrideList overrides_of(const Json& run) {
  OverrideList found;
  const Json& overrides = member(run, "overrides");
  if (overrides.is_object()) {
    for (const auto& [key, value] : overrides.items()) found.emplace_back(key, plain_text(value));
  } else if (overrides.is_array()) {
    for (const Json& one : overrides) {
      const std::string text = plain_text(one);
      const std::size_t sign = std::min(text.find('='), text.size());
      found.emplace_back(text.substr(0, sign), text.substr(std::min(sign + 1, text.size())));
    }
  }
  return found;
}

/// Returns the keys that differ between `rows`, or all keys if none does.
std::set<std::string> varied_keys(const Json& rows) {
  std::map<std::string, std::pair<std::string, std::size_t>> first;  // value, number of rows
  std::set<std::string> all;
  for (const Json& row : rows) {
    for (const auto& [key, value] : overrides_of(row)) {
      auto& first_value = first.try_emplace(key, value, 0).first->second;
      if (first_value.first == value) ++first_value.second;
      all.insert(key);
    }
  }
  std::set<std::string> varied;
  for (const auto& [key, first_value] : first) {
    if (first_value.second != rows.size()) varied.insert(key);
  }
  return varied.empty() ? all : varied;
}

/// Returns the values of those keys: "optimizer.lr=0.1, model.type=cnn".
std::string setting_text(const Json& row, const std::set<std::string>& keys) {
  std::string text;
  for (const auto& [key, value] : overrides_of(row)) {
    if (keys.contains(key)) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value);
  }
  return text;
}

std::string interval_text(const Json& value) {
  const Json& ci = member(value, "ci95");
  if (!ci.is_array() || ci.size() != 2 || !ci[0].is_number() || !ci[1].is_number()) return "-";
  return fmt::format("[{}, {}]", metric_text(ci[0].get<double>()),
                     metric_text(ci[1].get<double>()));
}

std::string known_text(double number) { return std::isnan(number) ? "-" : metric_text(number); }

std::string difference_text(const Json& row) {
  if (const Json& is_reference = member(row, "reference"); is_reference == Json(true))
    return "reference";
  const Json& difference = member(row, "difference");
  const double mean = number_at(difference, "mean");
  if (std::isnan(mean)) return "-";
  const std::string text = (mean < 0 ? "" : "+") + metric_text(mean);
  const std::string interval = interval_text(difference);
  if (interval == "-") return text;
  return text + " " + interval + (member(row, "tied") == Json(true) ? ", may be 0" : "");
}

std::string runs_text(const Json& row) {
  std::string text;
  const Json& runs = member(row, "runs");
  for (std::size_t i = 0; runs.is_array() && i < runs.size(); ++i)
    text += (i == 0 ? "" : " ") + plain_text(runs[i]);
  return text;
}

/// Returns one row per setting in the sweep's order; empty if it has no summary.
Html sweep_summary(const Json& sweep, const std::string& metric) {
  const Json& rows = member(sweep, "summary");
  if (!rows.is_array() || rows.empty()) return {};
  const Json& first = member(rows[0], "folds");
  const std::size_t folds = first.is_array() ? first.size() : 0;
  const std::size_t shown = folds <= kMostFoldColumns ? folds : 0;
  std::vector<Column> columns{"rank", left("settings"), "mean " + metric};
  if (folds > 0) columns.push_back({"deviation"});
  columns.insert(columns.end(), {"95 % interval", "difference [95 %]"});
  for (std::size_t fold = 0; fold < shown; ++fold)
    columns.push_back({fmt::format("fold {}", fold)});
  columns.insert(columns.end(), {left("runs"), left("status")});
  Table table(std::move(columns));
  const std::set<std::string> keys = varied_keys(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    const Json& value = member(row, "value");
    std::vector<std::string> cells{std::to_string(i + 1), setting_text(row, keys),
                                   known_text(number_at(value, "mean"))};
    if (folds > 0) cells.push_back(known_text(number_at(value, "deviation")));
    cells.insert(cells.end(), {interval_text(value), difference_text(row)});
    const std::vector<double> of_folds = numbers_at(row, "folds");
    for (std::size_t fold = 0; fold < shown; ++fold)
      cells.push_back(fold < of_folds.size() ? known_text(of_folds[fold]) : "-");
    cells.insert(cells.end(), {runs_text(row), text_at(row, "status")});
    table.add(std::move(cells));
  }
  return html_table(table);
}

std::string run_id_of(const Json& run) { return plain_text(member(run, "id")); }

/// Returns the value of a key; empty if the run has none.
std::string override_of(const Json& run, const std::string& key) {
  for (const auto& [name, value] : overrides_of(run)) {
    if (name == key) return value;
  }
  return "";
}

/// Returns the keys of the runs' overrides, in order.
std::vector<std::string> keys_of(const Json& runs) {
  std::vector<std::string> keys;
  for (const Json& run : runs) {
    for (const auto& [key, value] : overrides_of(run)) add_new(keys, key);
  }
  return keys;
}

/// Returns the value in the best epoch, by which the sweep itself ranks, or else in the last epoch.
/// NaN if the run has no value.
double result_of(const Json& run, const Objective& objective) {
  if (run.is_object() && run.contains("value")) return number_at(run, "value");
  return number_at(member(run, "metrics"), objective.metric);
}

/// Returns 0 for the best run to 1 for the worst, by rank, so that a diverged run does not hide the
/// differences of the others.
std::vector<double> shades_of(const Json& runs, const Objective& objective) {
  std::vector<double> sorted;
  for (const Json& run : runs) {
    if (std::isfinite(result_of(run, objective))) sorted.push_back(result_of(run, objective));
  }
  const auto better = [&](double a, double b) { return objective.lowest ? a < b : a > b; };
  std::ranges::sort(sorted, better);
  std::vector<double> shades;
  for (const Json& run : runs) {
    const auto place =
        std::ranges::lower_bound(sorted, result_of(run, objective), better) - sorted.begin();
    const auto last = static_cast<double>(std::max<std::size_t>(sorted.size(), 2) - 1);
    shades.push_back(std::isfinite(result_of(run, objective)) ? static_cast<double>(place) / last
                                                              : 1);
  }
  return shades;
}

struct SettingColumn {
  ParallelChart::Axis axis;
  std::vector<double> values;
};

/// Returns a numeric column if all values are numbers, or else labels in order of appearance.
SettingColumn column_of(const Json& runs, const std::string& key) {
  SettingColumn column{.axis = {.name = key}};
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  bool numbers = true;
  std::map<std::string, double> words;
  for (const Json& run : runs) {
    const std::string text = override_of(run, key);
    const double value = cell_number(text);
    column.values.push_back(value);
    if (text.empty()) continue;
    numbers = numbers && std::isfinite(value);
    low = std::min(low, value);
    high = std::max(high, value);
    if (words.emplace(text, static_cast<double>(words.size())).second)
      column.axis.values.push_back(text);
  }
  if (numbers) {
    column.axis.values.clear();
    column.axis.logarithmic = low > 0 && high / low >= 20;
    return column;
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto word = words.find(override_of(runs[i], key));
    column.values[i] = word == words.end() ? std::nan("") : word->second;
  }
  return column;
}

/// Draws settings and results as parallel coordinates: one axis per key, one line per run.
Html sweep_parallel(const Json& runs, const Objective& objective) {
  constexpr std::size_t kMostAxes = 9;
  std::vector<std::string> keys = keys_of(runs);
  keys.resize(std::min(keys.size(), kMostAxes));
  ParallelChart chart{.title = "Settings and " + objective.metric};
  std::vector<SettingColumn> columns;
  for (const std::string& key : keys) columns.push_back(column_of(runs, key));
  for (const SettingColumn& column : columns) chart.axes.push_back(column.axis);
  chart.axes.push_back({.name = objective.metric});
  const std::vector<double> shades = shades_of(runs, objective);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ParallelChart::Line line{
        .name = fmt::format("run {}: {} {}", run_id_of(runs[i]), objective.metric,
                            metric_text(result_of(runs[i], objective))),
        .shade = shades[i]};
    for (const SettingColumn& column : columns) line.values.push_back(column.values[i]);
    line.values.push_back(result_of(runs[i], objective));
    for (const std::string& key : keys) line.name += ", " + key + "=" + override_of(runs[i], key);
    if (std::isfinite(line.values.back())) chart.lines.push_back(std::move(line));
  }
  return parallel_chart(chart);
}

/// Uses the status, because a stopped run has an exit code as well.
bool has_failed(const Json& run) {
  const std::string status = text_at(run, "status");
  return status.empty() ? number_at(run, "exit_code") > 0 : status == "failed";
}

Html curves_of(const std::vector<SweptRun>& runs) {
  std::vector<CurveSeries> strands;
  const LineLook look = runs.size() > 12 ? LineLook::faint : LineLook::solid;
  for (std::size_t i = 0; i < runs.size(); ++i)
    strands.push_back({"run " + runs[i].id, &runs[i].files.epochs, i, look});
  return cards(strand_figures(strands, 12));
}

Html runs_table(const Json& runs, const Objective& objective) {
  std::vector<Column> columns{left("run"), objective.metric, left("status")};
  const std::vector<std::string> keys = keys_of(runs);
  columns.insert(columns.end(), keys.begin(), keys.end());
  columns.insert(columns.end(), {"seed", "epochs", "time", left("folder")});
  Table table(columns);
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::vector<double> shades = shades_of(runs, objective);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return shades[i]; });
  for (const std::size_t i : order) {
    const Json& run = runs[i];
    const double result = result_of(run, objective);
    const double code = number_at(run, "exit_code");
    const std::string failed = code > 0 ? fmt::format(" (exit {})", exact_text(code)) : "";
    std::vector<std::string> cells{run_id_of(run), std::isnan(result) ? "-" : metric_text(result),
                                   text_at(run, "status") + failed};
    for (const std::string& key : keys) cells.push_back(override_of(run, key));
    for (const char* key : {"seed", "epochs"}) {
      const double value = number_at(run, key);
      cells.push_back(std::isnan(value) ? "" : exact_text(value));
    }
    const double wall = number_at(run, "wall_s");
    cells.push_back(std::isfinite(wall) && wall >= 0 ? human_duration(wall) : "");
    cells.push_back(text_at(run, "run_dir"));
    table.add(std::move(cells));
  }
  return html_table(table);
}

/// Returns the setting that the sweep ranks first, or else the best run.
Fact best_of(const Json& sweep, const Objective& objective) {
  const std::string label = "best " + objective.metric;
  const Json& rows = member(sweep, "summary");
  if (rows.is_array() && !rows.empty() && text_at(rows.front(), "status") == "ok") {
    const double mean = number_at(member(rows.front(), "value"), "mean");
    if (!std::isnan(mean))
      return {label, metric_text(mean), setting_text(rows.front(), varied_keys(rows))};
  }
  const Json& runs = member(sweep, "runs");
  const std::vector<double> shades = shades_of(runs, objective);
  const auto best = std::ranges::min_element(shades);
  if (best == shades.end()) return {label, ""};
  const Json& run = runs[static_cast<std::size_t>(best - shades.begin())];
  const double value = result_of(run, objective);
  return {label, std::isnan(value) ? "" : metric_text(value), "run " + run_id_of(run)};
}

/// Returns the recorded folder; a relative path is next to the document or below the current
/// folder.
fs::path folder_of(const Json& run, const fs::path& sweep) {
  const fs::path run_dir = text_at(run, "run_dir");
  const fs::path relative = sweep / run_dir;
  return !run_dir.empty() && is_run_folder(relative) ? relative : run_dir;
}

}  // namespace

Objective objective_of(const Json& sweep) {
  Objective objective;
  for (const char* key : {"objective", "metric", "monitor"}) {
    const Json& entry = member(sweep, key);
    if (entry.is_object()) objective.metric = text_at(entry, "metric");
    if (entry.is_string()) objective.metric = entry.get<std::string>();
    const std::string mode = text_at(entry.is_object() ? entry : sweep, "mode");
    if (!objective.metric.empty() && !mode.empty()) return {objective.metric, mode != "max"};
    if (!objective.metric.empty()) break;
  }
  const Json& runs = member(sweep, "runs");
  for (std::size_t i = 0; objective.metric.empty() && runs.is_array() && i < runs.size(); ++i) {
    const Json& metrics = member(runs[i], "metrics");
    if (!metrics.is_object() || metrics.empty()) continue;
    objective.metric = metrics.contains("val/loss") ? "val/loss" : metrics.begin().key();
  }
  const std::string& name = objective.metric;
  objective.lowest = name.find("loss") != std::string::npos ||
                     name.find("error") != std::string::npos ||
                     name.find("perplexity") != std::string::npos;
  return objective;
}

std::string sweep_page(const Json& sweep, const std::vector<SweptRun>& files,
                       const std::string& title) {
  const Json& runs = member(sweep, "runs");
  ENSURE(config, schema_of(sweep).starts_with("trainctl.sweep/") && runs.is_array(),
         "{} is not a valid sweep: it must have the schema trainctl.sweep/2 and a list 'runs'",
         printable(title));
  const Objective objective = objective_of(sweep);
  Page page;
  page.title = title;
  page.subtitle = "sweep of " + text_at(sweep, "config");
  const auto failed = std::ranges::count_if(runs, has_failed);
  page.facts = {{"runs", std::to_string(runs.size())},
                {"failed", failed > 0 ? std::to_string(failed) : ""},
                best_of(sweep, objective)};
  page.sections = {{"summary", "Settings", sweep_summary(sweep, objective.metric)},
                   {"parallel", "Settings and results", sweep_parallel(runs, objective)},
                   {"curves", "Learning curves", curves_of(files)},
                   {"runs", "Runs, the best first", runs_table(runs, objective)}};
  page.footer = "Generated by trainctl report.";
  return render(page);
}

std::vector<SweptRun> swept_runs(const Json& sweep, const fs::path& folder) {
  std::vector<SweptRun> runs;
  const Json& list = member(sweep, "runs");
  for (std::size_t i = 0; list.is_array() && i < list.size(); ++i) {
    const fs::path run = folder_of(list[i], folder);
    if (run.empty() || !is_run_folder(run)) continue;
    runs.push_back({run_id_of(list[i]), read_run(run)});
  }
  return runs;
}

}  // namespace trainctl::report
