#include "report/text/task_results.hpp"

#include "base/strings.hpp"
#include "events/codec.hpp"
#include "report/record/run_result.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

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

namespace {

constexpr std::size_t kShown = 40;

bool is_bad(const events::TensorSummary& tensor) { return tensor.nan_count + tensor.inf_count > 0; }

std::string number(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }

std::string where(const std::string& first) {
  return first.empty() ? "none: all values are finite" : first;
}

/// Whether the result is the recorded one, and why it may not be.
std::string sameness(const Replay& replay) {
  const events::Replayed& step = replay.step;
  if (step.bitwise) return "the same bits as recorded: loss, outputs and gradients";
  std::string why = step.why_not;
  if (!replay.changed.empty())
    why += fmt::format("{}the config was changed", why.empty() ? "" : "; ");
  if (!step.drawn.empty())
    why += fmt::format("{}weights are not those of the dump", why.empty() ? "" : "; ");
  return "not the bits that were recorded" + (why.empty() ? std::string() : ": " + why);
}

std::string head(const Replay& replay, const Style& style) {
  const events::Replayed& step = replay.step;
  std::string text =
      paint(fmt::format("step {} of epoch {}, batch {} of rank {} ({} rows)", step.global_step,
                        step.epoch + 1, step.batch, step.rank, step.rows),
            Ink::bold, style);
  text += fmt::format("\nrecorded        {}; loss {}\n", printable(step.cause),
                      exact_text(step.recorded_loss));
  text += fmt::format("repeated        loss {}\n", exact_text(step.loss));
  text += fmt::format("not finite      {}\n", printable(where(step.first)));
  if (step.first != step.recorded_first)
    text += fmt::format("  recorded      {}\n", printable(where(step.recorded_first)));
  text += fmt::format("identical       {}\n", printable(sameness(replay)));
  if (!step.spoilt.empty())
    text += fmt::format("after a step    '{}' would not be finite\n", printable(step.spoilt));
  return text;
}

std::string remarks(const Replay& replay) {
  std::string text;
  for (const std::string& change : replay.changed)
    text += fmt::format("changed         {}\n", printable(change));
  if (!replay.step.drawn.empty())
    text += fmt::format("drawn anew      {}\n", shortened(replay.step.drawn));
  for (const std::string& note : replay.step.notes)
    text += fmt::format("note            {}\n", printable(note));
  for (const std::string& row : replay.step.bad_rows)
    text += fmt::format("row             {}\n", printable(row));
  return text;
}

std::vector<events::TensorSummary> bad_ones(const std::vector<events::TensorSummary>& all) {
  std::vector<events::TensorSummary> bad;
  std::ranges::copy_if(all, std::back_inserter(bad), is_bad);
  return bad;
}

std::string shown(const char* title, std::vector<events::TensorSummary> tensors,
                  const Style& style) {
  if (tensors.empty()) return {};
  const std::size_t more = tensors.size() - std::min(tensors.size(), kShown);
  tensors.resize(tensors.size() - more);
  std::string text = "\n" + to_text(tensor_table(title, tensors), style);
  if (more > 0) text += fmt::format("and {} more; --json has them\n", more);
  return text;
}

}  // namespace

Table tensor_table(const char* title, const std::vector<events::TensorSummary>& tensors) {
  Table table(
      {{title, Align::left}, {"shape", Align::left}, {"NaN"}, {"Inf"}, {"min"}, {"max"}, {"mean"}});
  for (const events::TensorSummary& tensor : tensors) {
    table.add({printable(tensor.name), fmt::format("{}", fmt::join(tensor.shape, "x")),
               with_thousands(tensor.nan_count), with_thousands(tensor.inf_count),
               number(tensor.min), number(tensor.max), number(tensor.mean)});
  }
  return table;
}

std::string replay_text(const Replay& replay, const Style& style) {
  return head(replay, style) + remarks(replay) + shown("output of", replay.step.layers, style) +
         shown("not finite", bad_ones(replay.step.tensors), style);
}

Json replay_document(const Replay& replay) {
  const events::Replayed& step = replay.step;
  return {
      {"schema", "trainctl.replay/1"},
      {"dump", printable(replay.dump)},
      {"epoch", step.epoch + 1},
      {"step", step.global_step},
      {"batch", step.batch},
      {"rank", step.rank},
      {"rows", step.rows},
      {"cause", step.cause},
      {"recorded_loss", json_number(step.recorded_loss)},
      {"loss", json_number(step.loss)},
      {"recorded_first", step.recorded_first.empty() ? Json(nullptr) : Json(step.recorded_first)},
      {"first", step.first.empty() ? Json(nullptr) : Json(step.first)},
      {"identical", step.bitwise},
      {"why_not", step.why_not},
      {"changed", replay.changed},
      {"drawn", step.drawn},
      {"spoilt", step.spoilt.empty() ? Json(nullptr) : Json(step.spoilt)},
      {"bad_rows", step.bad_rows},
      {"notes", step.notes},
      {"layers", events::to_json(step.layers)},
      {"tensors", events::to_json(step.tensors)}};
}

}  // namespace trainctl::report
