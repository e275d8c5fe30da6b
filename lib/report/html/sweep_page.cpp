#include "report/html/sweep_page.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/html/curves.hpp"
#include "report/html/page.hpp"
#include "report/html/sweep_parallel.hpp"
#include "report/html/sweep_summary.hpp"
#include "report/html/swept_results.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::report {
namespace {

/// A run that was stopped has an exit code, too.
bool has_failed(const Json& run) {
  const std::string status = text_at(run, "status");
  return status.empty() ? number_at(run, "exit_code") > 0 : status == "failed";
}

Html curves_of(const std::vector<SweptRun>& runs) {
  std::vector<Strand> strands;
  const LineLook look = runs.size() > 12 ? LineLook::faint : LineLook::solid;
  for (std::size_t i = 0; i < runs.size(); ++i)
    strands.push_back({"run " + runs[i].id, &runs[i].files.epochs, i, look});
  return cards(strand_figures(strands, 12));
}

Html runs_table(const Json& runs, const Objective& objective) {
  std::vector<Column> columns{{"run", Align::left}, {objective.metric}, {"status", Align::left}};
  const std::vector<std::string> keys = keys_of(runs);
  for (const std::string& key : keys) columns.push_back({key});
  for (const char* header : {"seed", "epochs", "time"}) columns.push_back({header});
  columns.push_back({"folder", Align::left});
  Table table(columns);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < runs.size(); ++i) order.push_back(i);
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

/// The setting that the sweep ranks first; else the best run.
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

}  // namespace

std::string sweep_page(const Json& sweep, const std::vector<SweptRun>& files,
                       const std::string& title) {
  const Json& runs = member(sweep, "runs");
  ENSURE(config, schema_of(sweep).starts_with("trainctl.sweep/") && runs.is_array(),
         "{} is no sweep: 'runs' and the schema trainctl.sweep/1 were expected", printable(title));
  const Objective objective = objective_of(sweep);
  Page page;
  page.title = title;
  page.subtitle = "sweep of " + text_at(sweep, "config");
  const auto failed = std::ranges::count_if(runs, has_failed);
  page.facts = {{"runs", std::to_string(runs.size())},
                {"failed", failed > 0 ? std::to_string(failed) : ""}};
  page.facts.push_back(best_of(sweep, objective));
  page.sections = {{"summary", "Settings", sweep_summary(sweep, objective.metric)},
                   {"parallel", "Settings and results", sweep_parallel(runs, objective)},
                   {"curves", "Learning curves", curves_of(files)},
                   {"runs", "Runs, the best first", runs_table(runs, objective)}};
  page.footer = "Made by trainctl report.";
  return render(page);
}

}  // namespace trainctl::report
