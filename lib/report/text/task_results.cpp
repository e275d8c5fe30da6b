#include "report/text/task_results.hpp"

#include "base/strings.hpp"
#include "report/record/result_document.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::report {
namespace {

/// "val/accuracy" -> "accuracy".
std::string bare(const std::string& metric) { return metric.substr(metric.find('/') + 1); }

/// Of its lines in plain text.
int width_of(const Table& table) {
  int widest = 0;
  for (const std::string& line : split(to_text(table, {}), '\n'))
    widest = std::max(widest, display_width(line));
  return widest;
}

Json metrics_json(const events::Metrics& metrics) {
  Json object = Json::object();
  for (const auto& [name, value] : metrics) object[bare(name)] = json_number(value);
  return object;
}

Json tables_json(const std::vector<events::TableRow>& rows) {
  Json object = Json::object();
  for (const events::TableRow& row : rows) object[bare(row.metric)].push_back(row.counts);
  return object;
}

}  // namespace

Table evaluation_table(const events::Evaluated& evaluated) {
  Table table({{"metric", Align::left}, {evaluated.split}});
  for (const auto& [name, value] : evaluated.metrics) table.add({bare(name), metric_text(value)});
  return table;
}

std::vector<Table> metric_tables(const RunRecord& record) {
  std::vector<Table> tables;
  std::string name;
  for (const events::TableRow& row : record.tables) {
    if (tables.empty() || row.metric != name) {
      name = row.metric;
      std::vector<Column> columns{{bare(name), Align::left}};
      for (std::size_t i = 0; i < row.counts.size(); ++i) columns.push_back({std::to_string(i)});
      tables.emplace_back(std::move(columns));
    }
    std::vector<std::string> cells{std::to_string(row.row)};
    for (const std::int64_t count : row.counts) cells.push_back(std::to_string(count));
    tables.back().add(std::move(cells));
  }
  return tables;
}

std::string evaluation_text(const RunRecord& record, const Style& style) {
  if (!record.evaluated) return {};
  const events::Evaluated& told = *record.evaluated;
  std::string text =
      fmt::format("{} of {}: {} samples in {}\n\n", printable(told.checkpoint), told.split,
                  with_thousands(told.samples), human_duration(told.wall_s));
  text += to_text(evaluation_table(told), style);
  for (const Table& table : metric_tables(record)) {
    if (width_of(table) <= style.width) text += "\n" + to_text(table, style);
  }
  return text;
}

Json evaluation_document(const RunRecord& record, const Ending& ending) {
  const events::Evaluated* told = record.evaluated ? &*record.evaluated : nullptr;
  Json document;
  document["schema"] = "trainctl.evaluation/1";
  document["verdict"] = ending.verdict;
  document["exit_code"] = ending.exit_code;
  document["message"] = ending.message;
  document["started_at"] = ending.started_at;
  document["wall_s"] = ending.wall_s;
  document["split"] = told != nullptr ? Json(told->split) : Json(nullptr);
  document["checkpoint"] = told != nullptr ? Json(told->checkpoint) : Json(nullptr);
  document["samples"] = told != nullptr ? Json(told->samples) : Json(nullptr);
  document["metrics"] = told != nullptr ? metrics_json(told->metrics) : Json(nullptr);
  document["tables"] = tables_json(record.tables);
  document["skipped_samples"] = record.skipped.size();
  document["world_size"] = world_size_of(record);
  document["first_failure"] = failure_document(ending.first_failure);
  return document;
}

}  // namespace trainctl::report
