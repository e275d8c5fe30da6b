#include "report/compare/bench.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::report {
namespace {

template <class Value>
std::vector<double> each(const BenchRow& row, const Value& value) {
  std::vector<double> values;
  for (const Trial& trial : row.trials) values.push_back(value(trial));
  return values;
}

std::vector<double> median_epochs(const BenchRow& row) {
  std::size_t epochs = 0;
  for (const Trial& trial : row.trials) epochs = std::max(epochs, trial.epoch_s.size());
  std::vector<double> medians;
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<double> values;
    for (const Trial& trial : row.trials) {
      if (epoch < trial.epoch_s.size()) values.push_back(trial.epoch_s[epoch]);
    }
    medians.push_back(median(values));
  }
  return medians;
}

// NaN equals NaN here: a run that diverges in the same way is the same run.
bool same_numbers(const std::vector<double>& a, const std::vector<double>& b) {
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  return std::ranges::equal(a, b, same);
}

std::optional<bool> same_losses(const BenchRow& base, const BenchRow& row) {
  if (base.trials.empty() || row.trials.empty() || base.trials.front().losses.empty())
    return std::nullopt;
  const std::vector<double>& wanted = base.trials.front().losses;
  return std::ranges::all_of(
      row.trials, [&](const Trial& trial) { return same_numbers(trial.losses, wanted); });
}

RowSummary summarize_row(const BenchRow& base, const BenchRow& row) {
  const auto total_s = [](const Trial& trial) { return trial.total_s; };
  return {
      .total_s = quartiles(each(row, total_s)),
      .epoch_s = median_epochs(row),
      .steady_epoch_s = median(each(row, steady_epoch_s)),
      .startup_s = median(each(row, [](const Trial& trial) { return trial.startup_s; })),
      .first_batch_s = median(each(row, [](const Trial& trial) { return trial.first_batch_s; })),
      .rss_mb = median(each(row, [](const Trial& trial) { return trial.rss_mb; })),
      .samples_per_s = median(each(row, [](const Trial& trial) { return trial.samples_per_s; })),
      .speedup = speedup(each(base, total_s), each(row, total_s)),
      .epoch_speedup = speedup(each(base, steady_epoch_s), each(row, steady_epoch_s)),
      .same_batches = same_batches(base, row),
      .same_losses = same_losses(base, row)};
}

std::string duration_text(double seconds) {
  return std::isfinite(seconds) ? human_duration(seconds) : "-";
}

// Seconds throughout: a median in minutes beside quartiles in seconds would not be comparable at a
// glance.
std::string seconds_text(double seconds) {
  return fmt::format("{:.{}f}", seconds, seconds < 10 ? 2 : 1);
}

std::string total_text(const BenchRow& row, const Quartiles& total) {
  if (row.trials.empty() && row.failure)
    return fmt::format("failed (exit {})", row.failure->exit_code);
  if (!std::isfinite(total.median)) return "-";
  return fmt::format("{} s [{}, {}]", seconds_text(total.median), seconds_text(total.q1),
                     seconds_text(total.q3));
}

std::string speedup_text(const Speedup& speedup) {
  if (!speedup.value) return "-";
  const std::string value = fmt::format("{:.2f}x", *speedup.value);
  return speedup.ci95
             ? value + fmt::format(" [{:.2f}, {:.2f}]", speedup.ci95->low, speedup.ci95->high)
             : value;
}

std::string interval_note(std::size_t repeats) {
  if (repeats < kFewestPairs) return ", without an interval below 3 repeats";
  return " with its 95 % interval (Student's t of their logarithms)";
}

std::string same_text(const std::optional<bool>& same) {
  if (!same) return "?";
  return *same ? "same" : "differ";
}

/// The same bits, or as near as sums in another order are.
std::string losses_text(const BenchRow& base, const BenchRow& row, const RowSummary& summary) {
  if (!summary.same_losses || *summary.same_losses) return same_text(summary.same_losses);
  const std::string text = loss_text(loss_gap(base, row));
  return text.starts_with("within") ? text : "differ";
}

std::string final_loss(const BenchRow& row) {
  const bool none = row.trials.empty() || row.trials.front().losses.empty();
  return none ? "-" : metric_text(row.trials.front().losses.back());
}

std::size_t most_trials(std::span<const BenchRow> rows) {
  std::size_t most = 0;
  for (const BenchRow& row : rows) most = std::max(most, row.trials.size());
  return most;
}

std::string memory_text(double mb) { return mb > 0 ? with_thousands(std::llround(mb)) : "-"; }

/// The numbers of at most ten epochs, the first and the last among them.
std::vector<std::size_t> shown_epochs(std::span<const BenchRow> rows) {
  constexpr std::size_t kMost = 10;
  std::size_t epochs = 0;
  for (const BenchRow& row : rows) {
    if (!row.trials.empty()) epochs = std::max(epochs, row.trials.front().losses.size());
  }
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < std::min(epochs, kMost); ++i)
    shown.push_back(epochs <= kMost ? i : i * (epochs - 1) / (kMost - 1));
  return shown;
}

std::string first_epoch_text(const RowSummary& row) {
  return row.epoch_s.empty() ? "-" : duration_text(row.epoch_s.front());
}

}  // namespace

double steady_epoch_s(const Trial& trial) {
  const std::span<const double> all = trial.epoch_s;
  return median(all.size() > 1 ? all.subspan(1) : all);
}

std::vector<RowSummary> summarize(std::span<const BenchRow> rows) {
  std::vector<RowSummary> summaries;
  for (const BenchRow& row : rows) summaries.push_back(summarize_row(rows.front(), row));
  return summaries;
}

Table bench_table(std::span<const BenchRow> rows) {
  Table table({{"technique", Align::left},
               {"total [quartiles]"},
               {"epoch"},
               {"samples/s"},
               {"speed-up [95 %]"},
               {"per epoch"},
               {"final loss"},
               {"batches", Align::left},
               {"losses", Align::left}});
  const std::vector<RowSummary> summaries = summarize(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowSummary& row = summaries[i];
    const bool base = i == 0;
    const Speedup epoch{.value = row.epoch_speedup.value};
    table.add({printable(rows[i].technique), total_text(rows[i], row.total_s),
               duration_text(row.steady_epoch_s),
               rows[i].trials.empty() ? "-" : rate_text(row.samples_per_s),
               base ? "baseline" : speedup_text(row.speedup), base ? "" : speedup_text(epoch),
               final_loss(rows[i]), same_text(row.same_batches),
               losses_text(rows.front(), rows[i], row)});
  }
  return table;
}

Table epochs_table(std::span<const BenchRow> rows) {
  const std::vector<std::size_t> epochs = shown_epochs(rows);
  std::vector<Column> columns{
      {"technique", Align::left}, {"start-up"}, {"first batch"}, {"first epoch"}, {"peak MB"}};
  for (const std::size_t epoch : epochs) columns.push_back({fmt::format("loss {}", epoch + 1)});
  Table table(columns);
  const std::vector<RowSummary> summaries = summarize(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowSummary& row = summaries[i];
    std::vector<std::string> cells{printable(rows[i].technique), duration_text(row.startup_s),
                                   duration_text(row.first_batch_s), first_epoch_text(row),
                                   memory_text(row.rss_mb)};
    for (const std::size_t epoch : epochs) {
      const bool told = !rows[i].trials.empty() && epoch < rows[i].trials.front().losses.size();
      cells.push_back(told ? metric_text(rows[i].trials.front().losses[epoch]) : "-");
    }
    table.add(std::move(cells));
  }
  return table;
}

std::string contention_warning(std::span<const BenchRow> rows) {
  std::size_t runs = 0;
  std::size_t contended = 0;
  double most = 0;
  for (const BenchRow& row : rows) {
    for (const Trial& trial : row.trials) {
      ++runs;
      contended += trial.taken > 0 ? 1 : 0;
      most = std::max(most, trial.taken);
    }
  }
  if (contended == 0) return {};
  return fmt::format(
      "other processes took up to {:.0f} % of the cores during {} of {} runs: the intervals are "
      "wide, and speed-ups by threads or workers too small",
      100 * most, contended, runs);
}

std::string bench_notes(std::span<const BenchRow> rows) {
  if (rows.empty()) return "";
  const std::size_t repeats = most_trials(rows);
  std::string text = fmt::format(
      "{} interleaved run{} a row, each in fresh processes; total includes start-up ({}).\n",
      repeats, plural(repeats), duration_text(summarize(rows).front().startup_s));
  const bool warm = !rows.front().trials.empty() && rows.front().trials.front().epoch_s.size() > 1;
  text += warm ? "Epochs are those after the first.\n"
               : "There is one epoch; its warm-up is included.\n";
  for (const BenchRow& row : rows) {
    if (row.failure) text += fmt::format("Failed: {}\n", one_line(row.failure->message));
  }
  if (rows.size() < 2) return text;
  text += fmt::format("Speed-up is against '{}': geometric mean of the paired repeats{}.\n",
                      printable(rows.front().technique), interval_note(repeats));
  return text;
}

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
    cells.push_back(optional_text(events::find_metric(trial.metrics, name)));
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
