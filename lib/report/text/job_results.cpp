#include "report/text/job_results.hpp"

#include "events/pipe.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <iterator>

namespace trainctl::report {
namespace {

/// Returns "accuracy" for "val/accuracy".
std::string bare(const std::string& metric) { return metric.substr(metric.find('/') + 1); }

/// Returns the width of its lines in plain text.
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

/// Returns the metrics that are tables: a row for each class, a column for each predicted class.
std::vector<Table> metric_tables(const RunRecord& record) {
  std::vector<Table> tables;
  std::string name;
  for (const events::TableRow& row : record.tables) {
    if (tables.empty() || row.metric != name) {
      name = row.metric;
      std::vector<Column> columns{left(bare(name))};
      for (std::size_t i = 0; i < row.counts.size(); ++i) columns.push_back({std::to_string(i)});
      tables.emplace_back(std::move(columns));
    }
    std::vector<std::string> cells{std::to_string(row.row)};
    for (const std::int64_t count : row.counts) cells.push_back(std::to_string(count));
    tables.back().add(std::move(cells));
  }
  return tables;
}

/// Returns the values of the int8 model next to those of the float32 model.
Table quantized_table(const events::Evaluated& evaluated) {
  const events::Quantized& made = *evaluated.quantized;
  Table table({left("metric"), "float32", "int8"});
  for (std::size_t i = 0; i < evaluated.metrics.size(); ++i) {
    const auto& [name, value] = evaluated.metrics[i];
    table.add({bare(name), metric_text(made.float32_metrics.at(i).second), metric_text(value)});
  }
  const auto speed = [](double samples) { return with_thousands(std::llround(samples)); };
  table.add({"size", human_bytes(made.float32_bytes), human_bytes(made.int8_bytes)});
  table.add({"samples/s", speed(made.float32_samples_per_s), speed(made.int8_samples_per_s)});
  return table;
}

Json quantized_json(const events::Evaluated& evaluated) {
  if (!evaluated.quantized) return nullptr;
  const events::Quantized& made = *evaluated.quantized;
  return {{"layers", made.layers},
          {"calibration_batches", made.calibration_batches},
          {"float32",
           {{"metrics", metrics_json(made.float32_metrics)},
            {"bytes", made.float32_bytes},
            {"samples_per_s", json_number(made.float32_samples_per_s)}}},
          {"int8",
           {{"metrics", metrics_json(evaluated.metrics)},
            {"bytes", made.int8_bytes},
            {"samples_per_s", json_number(made.int8_samples_per_s)}}}};
}

constexpr std::size_t kShown = 40;

std::string number(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }

std::string where(const std::string& first) {
  return first.empty() ? "none: all values are finite" : first;
}

/// Returns whether the result equals the recorded one, and why it may differ.
std::string sameness(const Replay& replay) {
  const events::Replayed& step = replay.step;
  if (step.bitwise) return "bitwise equal to the recording: loss, outputs and gradients";
  std::string why = step.why_not;
  if (!replay.changed.empty())
    why += fmt::format("{}the config has changed", why.empty() ? "" : "; ");
  if (!step.initialized.empty())
    why += fmt::format("{}the weights differ from the saved ones", why.empty() ? "" : "; ");
  return "not bitwise equal to the recording" + (why.empty() ? std::string() : ": " + why);
}

std::string head(const Replay& replay, const Style& style) {
  const events::Replayed& step = replay.step;
  std::string text = paint(fmt::format("step {} of epoch {}, batch {} of rank {} ({} rows)",
                                       with_thousands(step.global_step), step.epoch + 1, step.batch,
                                       step.rank, step.rows),
                           Ink::bold, style);
  text += fmt::format("\nrecorded        {}; loss {}\n", printable(step.cause),
                      exact_text(step.recorded_loss));
  text += fmt::format("repeated        loss {}\n", exact_text(step.loss));
  text += fmt::format("not finite      {}\n", printable(where(step.first)));
  if (step.first != step.recorded_first)
    text += fmt::format("  recorded      {}\n", printable(where(step.recorded_first)));
  text += fmt::format("comparison      {}\n", printable(sameness(replay)));
  if (!step.non_finite_after_step.empty())
    text += fmt::format("after a step    '{}' would not be finite\n",
                        printable(step.non_finite_after_step));
  return text;
}

std::string remarks(const Replay& replay) {
  std::string text;
  for (const std::string& change : replay.changed)
    text += fmt::format("changed         {}\n", printable(change));
  if (!replay.step.initialized.empty())
    text += fmt::format("initialized     {}\n", shortened(replay.step.initialized));
  for (const std::string& note : replay.step.notes)
    text += fmt::format("note            {}\n", printable(note));
  for (const std::string& row : replay.step.bad_rows)
    text += fmt::format("row             {}\n", printable(row));
  return text;
}

/// Returns a table with one row per tensor: shape, NaN, Inf, range and mean of the finite values.
Table tensor_table(const char* title, const std::vector<events::TensorSummary>& tensors) {
  Table table({left(title), left("shape"), "NaN", "Inf", "min", "max", "mean"});
  for (const events::TensorSummary& tensor : tensors)
    table.add({printable(tensor.name), fmt::format("{}", fmt::join(tensor.shape, "x")),
               with_thousands(tensor.nan_count), with_thousands(tensor.inf_count),
               number(tensor.min), number(tensor.max), number(tensor.mean)});
  return table;
}

std::string shown(const char* title, std::vector<events::TensorSummary> tensors,
                  const Style& style) {
  if (tensors.empty()) return {};
  const std::size_t more = tensors.size() - std::min(tensors.size(), kShown);
  tensors.resize(tensors.size() - more);
  std::string text = "\n" + to_text(tensor_table(title, tensors), style);
  if (more > 0) text += fmt::format("and {} more tensors, which --json lists\n", more);
  return text;
}

}  // namespace

std::string evaluation_text(const RunRecord& record, const Style& style) {
  if (!record.evaluated) return {};
  const events::Evaluated& evaluated = *record.evaluated;
  std::string text = fmt::format(
      "{} on split {}: {} samples in {}\n\n", printable(evaluated.checkpoint), evaluated.split,
      with_thousands(evaluated.samples), human_duration(evaluated.wall_s));
  Table values({left("metric"), evaluated.split});
  for (const auto& [name, value] : evaluated.metrics) values.add({bare(name), metric_text(value)});
  text += to_text(evaluated.quantized ? quantized_table(evaluated) : values, style);
  for (const Table& table : metric_tables(record)) {
    if (width_of(table) <= style.width) text += "\n" + to_text(table, style);
  }
  return text;
}

Json evaluation_document(const RunRecord& record, const RunResult& ending) {
  Json values{{"split", nullptr},
              {"checkpoint", nullptr},
              {"samples", nullptr},
              {"metrics", nullptr},
              {"quantized", nullptr}};
  if (const auto& done = record.evaluated) {
    values.update(JSON_FIELDS(*done, split, checkpoint, samples));
    values["metrics"] = metrics_json(done->metrics);
    values["quantized"] = quantized_json(*done);
  }
  return joined({{{"schema", "trainctl.evaluation/2"}},
                 JSON_FIELDS(ending, verdict, exit_code, message, started_at, wall_s),
                 values,
                 {{"tables", tables_json(record.tables)},
                  {"skipped_samples", record.skipped.size()},
                  {"world_size", world_size_of(record)},
                  {"first_failure", failure_document(ending.first_failure)}}});
}

std::string replay_text(const Replay& replay, const Style& style) {
  std::vector<events::TensorSummary> bad;
  std::ranges::copy_if(replay.step.tensors, std::back_inserter(bad),
                       [](const auto& tensor) { return tensor.nan_count + tensor.inf_count > 0; });
  return head(replay, style) + remarks(replay) + shown("output of", replay.step.layers, style) +
         shown("not finite", std::move(bad), style);
}

Json replay_document(const Replay& replay) {
  const events::Replayed& step = replay.step;
  return joined(
      {{{"schema", "trainctl.replay/2"},
        {"dump", printable(replay.dump)},
        {"epoch", step.epoch + 1},
        {"step", step.global_step}},
       JSON_FIELDS(step, batch, rank, rows, cause, recorded_loss, loss),
       {{"recorded_first", or_null(step.recorded_first)},
        {"first", or_null(step.first)},
        {"identical", step.bitwise},
        {"why_not", step.why_not},
        {"changed", replay.changed},
        {"initialized", step.initialized},
        {"non_finite_after_step", or_null(step.non_finite_after_step)}},
       JSON_FIELDS(step, bad_rows, notes),
       {{"layers", events::to_json(step.layers)}, {"tensors", events::to_json(step.tensors)}}});
}

}  // namespace trainctl::report
