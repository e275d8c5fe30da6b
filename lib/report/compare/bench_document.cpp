#include "report/compare/bench.hpp"

#include <algorithm>

namespace trainctl::report {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json numbers_json(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(json_number(value));
  return list;
}

Json speedup_json(const Speedup& speedup) {
  Json interval = nullptr;
  if (speedup.ci95) interval = Json::array({speedup.ci95->low, speedup.ci95->high});
  return {{"value", or_null(speedup.value)}, {"ci95", interval}};
}

Json failure_json(const std::optional<TrialFailure>& failure) {
  if (!failure) return nullptr;
  return {{"exit_code", failure->exit_code}, {"message", failure->message}};
}

Json identical_json(const RowSummary& summary) {
  if (summary.same_losses == false || summary.same_batches == false) return false;
  return summary.same_losses && summary.same_batches ? Json(true) : Json(nullptr);
}

Json trial_json(const Trial& trial) {
  Json metrics = Json::object();
  for (const auto& [name, value] : trial.metrics) metrics[name] = json_number(value);
  return {{"total_s", json_number(trial.total_s)},
          {"epoch_s", numbers_json(trial.epoch_s)},
          {"startup_s", json_number(trial.startup_s)},
          {"first_batch_s", json_number(trial.first_batch_s)},
          {"samples_per_s", json_number(trial.samples_per_s)},
          {"rss_mb", trial.rss_mb > 0 ? json_number(trial.rss_mb) : Json(nullptr)},
          {"gpu_mem_mb", or_null(trial.gpu_mem_mb)},
          {"exposed_s", or_null(trial.exposed_s)},
          {"taken_cores", json_number(trial.taken)},
          {"loss", numbers_json(trial.losses)},
          {"metrics", metrics},
          {"data_digest", trial.data_digest}};
}

Json trials_json(const BenchRow& row) {
  Json list = Json::array();
  for (const Trial& trial : row.trials) list.push_back(trial_json(trial));
  return list;
}

Json repeats_json(const BenchRow& row) {
  Json list = Json::array();
  for (const Trial& trial : row.trials) list.push_back(json_number(trial.total_s));
  return list;
}

Json row_json(const BenchRow& row, const RowSummary& summary) {
  Json settings = Json::object();
  for (const auto& [key, value] : row.settings) settings[key] = value;
  const bool ran = !row.trials.empty();
  const Quartiles& total = summary.total_s;
  const Json total_s{{"median", json_number(total.median)},
                     {"q1", json_number(total.q1)},
                     {"q3", json_number(total.q3)}};
  return {{"technique", row.technique},
          {"settings", settings},
          {"total_s", total_s},
          {"epoch_s", numbers_json(summary.epoch_s)},
          {"samples_per_s", json_number(summary.samples_per_s)},
          {"speedup", speedup_json(summary.speedup)},
          {"loss", ran ? numbers_json(row.trials.front().losses) : Json::array()},
          {"data_digest", ran ? row.trials.front().data_digest : ""},
          {"identical", identical_json(summary)},
          {"same_batches", or_null(summary.same_batches)},
          {"same_losses", or_null(summary.same_losses)},
          {"steady_epoch_s", json_number(summary.steady_epoch_s)},
          {"epoch_speedup", speedup_json(summary.epoch_speedup)},
          {"startup_s", json_number(summary.startup_s)},
          {"first_batch_s", json_number(summary.first_batch_s)},
          {"rss_mb", summary.rss_mb > 0 ? json_number(summary.rss_mb) : Json(nullptr)},
          {"repeats_s", repeats_json(row)},
          {"trials", trials_json(row)},
          {"failure", failure_json(row.failure)}};
}

/// In the order in which they first come.
std::vector<std::string> metric_names(std::span<const BenchRow> rows) {
  std::vector<std::string> names;
  for (const BenchRow& row : rows) {
    for (const Trial& trial : row.trials) {
      for (const auto& [name, value] : trial.metrics) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
  }
  return names;
}

std::vector<std::string> setting_keys(std::span<const BenchRow> rows) {
  std::vector<std::string> keys;
  if (rows.empty()) return keys;
  for (const auto& [key, value] : rows.front().settings) keys.push_back(key);
  return keys;
}

std::string optional_text(const std::optional<double>& value) {
  return value ? exact_text(*value) : std::string();
}

void add_trial(Table& table, const BenchRow& row, std::size_t repeat,
               std::span<const std::string> metrics) {
  const Trial& trial = row.trials[repeat];
  std::vector<std::string> cells{row.technique};
  for (const auto& [key, value] : row.settings) cells.push_back(value);
  cells.insert(cells.end(), {std::to_string(repeat + 1), exact_text(trial.total_s),
                             exact_text(trial.startup_s), exact_text(trial.first_batch_s),
                             exact_text(steady_epoch_s(trial)), exact_text(trial.samples_per_s),
                             trial.rss_mb > 0 ? exact_text(trial.rss_mb) : std::string(),
                             optional_text(trial.gpu_mem_mb), optional_text(trial.exposed_s)});
  for (const std::string& name : metrics)
    cells.push_back(optional_text(find_metric(trial.metrics, name)));
  cells.push_back(trial.data_digest);
  table.add(std::move(cells));
}

}  // namespace

Table trials_table(std::span<const BenchRow> rows) {
  std::vector<Column> columns{{"technique", Align::left}};
  for (const std::string& key : setting_keys(rows)) columns.push_back({key});
  for (const char* name : {"repeat", "total_s", "startup_s", "first_batch_s", "epoch_s",
                           "samples_per_s", "rss_mb", "gpu_mem_mb", "exposed_s"})
    columns.push_back({name});
  const std::vector<std::string> metrics = metric_names(rows);
  for (const std::string& name : metrics) columns.push_back({name});
  columns.push_back({"data_digest"});
  Table table(columns);
  for (const BenchRow& row : rows) {
    for (std::size_t i = 0; i < row.trials.size(); ++i) add_trial(table, row, i, metrics);
  }
  return table;
}

Json bench_document(std::span<const BenchRow> rows, const BenchSetup& setup) {
  Json list = Json::array();
  const std::vector<RowSummary> summaries = summarize(rows);
  std::size_t repeats = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    list.push_back(row_json(rows[i], summaries[i]));
    repeats = std::max(repeats, rows[i].trials.size());
  }
  return {{"schema", "trainctl.bench/1"},
          {"config", setup.config},
          {"repeats", repeats},
          {"baseline", rows.empty() ? "" : rows.front().technique},
          {"rows", list},
          {"machine", setup.machine},
          {"config_hash", setup.config_hash.empty() ? Json(nullptr) : Json(setup.config_hash)},
          {"config_resolved",
           setup.config_resolved.empty() ? Json(nullptr) : Json(setup.config_resolved)}};
}

}  // namespace trainctl::report
