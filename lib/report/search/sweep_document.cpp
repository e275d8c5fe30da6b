#include "report/search/sweep.hpp"

#include <algorithm>
#include <optional>

namespace trainctl::report {
namespace {

Json or_null(const std::optional<double>& value) {
  return value ? json_number(*value) : Json(nullptr);
}

Json interval_json(const MeanInterval& value) {
  Json ci = nullptr;
  if (value.ci95) ci = Json::array({json_number(value.ci95->low), json_number(value.ci95->high)});
  return {{"mean", or_null(value.mean)}, {"ci95", ci}, {"count", value.count}};
}

/// A number as a number: pages draw axes of them.
Json value_json(const std::string& yaml) {
  Json value = Json::parse(yaml, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(yaml) : value;
}

Json overrides_json(const Overrides& overrides) {
  Json object = Json::object();
  for (const auto& [key, value] : overrides) object[key] = value_json(value);
  return object;
}

Json run_json(const SweepRun& run) {
  Json metrics = Json::object();
  for (const auto& [name, value] : run.metrics) metrics[name] = json_number(value);
  return {{"id", run.id},
          {"overrides", overrides_json(run.overrides)},
          {"seed", run.seed},
          {"status", name_of(run.status)},
          {"exit_code", run.exit_code ? Json(*run.exit_code) : Json(nullptr)},
          {"message", run.message},
          {"metrics", metrics},
          {"value", or_null(run.value)},
          {"epochs", run.epochs},
          {"wall_s", json_number(run.wall_s)},
          {"pruned_at", run.pruned_at ? Json(*run.pruned_at) : Json(nullptr)},
          {"group", run.group},
          {"run_dir", run.run_dir}};
}

Json row_json(const SweepRow& row, std::size_t rank, const Sweep& sweep) {
  Json ids = Json::array();
  for (const SweepRun& run : sweep.runs) {
    if (run.group == row.group) ids.push_back(run.id);
  }
  return {{"rank", rank},
          {"group", row.group},
          {"overrides", overrides_json(row.overrides)},
          {"status", name_of(row.status)},
          {"runs", ids},
          {"value", interval_json(row.value)},
          {"difference", interval_json(row.difference)},
          {"reference", row.is_reference},
          {"tied", row.tied ? Json(*row.tied) : Json(nullptr)},
          {"epochs", row.epochs},
          {"wall_s", json_number(row.wall_s)}};
}

}  // namespace

Json sweep_document(const Sweep& sweep, int exit_code) {
  Json runs = Json::array();
  for (const SweepRun& run : sweep.runs) runs.push_back(run_json(run));
  Json summary = Json::array();
  const std::vector<SweepRow> rows = sweep_rows(sweep);
  for (std::size_t i = 0; i < rows.size(); ++i) summary.push_back(row_json(rows[i], i + 1, sweep));
  Json counts = Json::object();
  for (const char* name : enum_names(SweepStatus())) counts[name] = 0;
  for (const SweepRun& run : sweep.runs) counts[name_of(run.status)] = runs_with(sweep, run.status);
  const auto tied = std::ranges::count(rows, std::optional(true), &SweepRow::tied);
  return {{"schema", "trainctl.sweep/1"},
          {"config", sweep.config},
          {"folder", sweep.folder},
          {"kind", sweep.kind},
          {"asha", sweep.prunes},
          {"monitor", sweep.monitor},
          {"mode", sweep.better == Better::lower ? "min" : "max"},
          {"against", enum_names(sweep.against).at(static_cast<std::size_t>(sweep.against))},
          {"exit_code", exit_code},
          {"counts", counts},
          {"tied", tied},
          {"runs", runs},
          {"summary", summary}};
}

Table sweep_results(const Sweep& sweep) {
  const std::vector<std::string> keys = sweep_keys(sweep);
  std::vector<std::string> metrics;
  for (const SweepRun& run : sweep.runs) {
    for (const auto& [name, value] : run.metrics) {
      if (std::ranges::find(metrics, name) == metrics.end()) metrics.push_back(name);
    }
  }
  std::vector<Column> columns;
  for (const char* name : {"id", "status", "exit_code", "seed"}) columns.push_back({name});
  for (const std::string& key : keys) columns.push_back({key});
  columns.push_back({"best " + sweep.monitor});
  for (const std::string& name : metrics) columns.push_back({name});
  for (const char* name : {"epochs", "wall_s", "pruned_at", "run_dir"}) columns.push_back({name});
  Table table(std::move(columns));
  for (const SweepRun& run : sweep.runs) {
    std::vector<std::string> cells{run.id, name_of(run.status),
                                   run.exit_code ? std::to_string(*run.exit_code) : "",
                                   std::to_string(run.seed)};
    for (const std::string& key : keys) cells.push_back(override_of(run.overrides, key));
    cells.push_back(run.value ? exact_text(*run.value) : "");
    for (const std::string& name : metrics) {
      const auto found =
          std::ranges::find(run.metrics, name, &std::pair<std::string, double>::first);
      cells.push_back(found == run.metrics.end() ? "" : exact_text(found->second));
    }
    cells.push_back(std::to_string(run.epochs));
    cells.push_back(exact_text(run.wall_s));
    cells.push_back(run.pruned_at ? std::to_string(*run.pruned_at) : "");
    cells.push_back(run.run_dir);
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace trainctl::report
