#include "report/search/sweep.hpp"

#include <limits>
#include <set>
#include <tuple>

namespace trainctl::report {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using Runs = std::vector<const SweepRun*>;

SweepStatus status_of(const Runs& runs) {
  for (const SweepStatus status :
       {SweepStatus::failed, SweepStatus::running, SweepStatus::pending, SweepStatus::pruned}) {
    if (std::ranges::find(runs, status, &SweepRun::status) != runs.end()) return status;
  }
  return SweepStatus::ok;
}

/// Returns the monitor's values of the runs by seed, or in a cross-validation by fold. The values
/// of a fold are averaged over its seeds, since only different folds have different samples.
std::map<std::uint64_t, double> values_of(const Runs& runs) {
  std::map<std::uint64_t, std::vector<double>> found;
  for (const SweepRun* run : runs) {
    const std::uint64_t key = run->fold ? static_cast<std::uint64_t>(*run->fold) : run->seed;
    if (run->value && run->status != SweepStatus::failed) found[key].push_back(*run->value);
  }
  std::map<std::uint64_t, double> values;
  for (const auto& [key, of_key] : found) values[key] = mean(of_key);
  return values;
}

/// Compares the folds or seeds that both have.
MeanInterval difference_of(const Runs& base, const Runs& runs) {
  const std::map<std::uint64_t, double> of_base = values_of(base);
  std::vector<double> before;
  std::vector<double> now;
  for (const auto& [seed, value] : values_of(runs)) {
    const auto found = of_base.find(seed);
    before.push_back(found == of_base.end() ? kNone : found->second);
    now.push_back(value);
  }
  return paired_interval(before, now);
}

SweepRow row_of(std::size_t group, const Runs& runs) {
  SweepRow row;
  row.group = group;
  row.overrides = runs.front()->overrides;
  row.status = status_of(runs);
  row.epochs = runs.front()->epochs;
  for (const SweepRun* run : runs) {
    row.run_ids.push_back(run->id);
    row.epochs = std::min(row.epochs, run->epochs);
    row.wall_s += run->wall_s / static_cast<double>(runs.size());
  }
  std::vector<double> values;
  for (const SweepRun* run : runs)
    row.folds.resize(
        std::max(row.folds.size(), static_cast<std::size_t>(run->fold.value_or(-1) + 1)));
  for (const auto& [key, value] : values_of(runs)) {
    values.push_back(value);
    if (!row.folds.empty()) row.folds.at(key) = value;
  }
  row.value = mean_interval(values);
  return row;
}

/// Returns the sort key of a row: lower is better.
std::tuple<int, std::int64_t, double, std::size_t> place_of(const SweepRow& row, Better better) {
  const int rank = row.status == SweepStatus::ok       ? 0
                   : row.status == SweepStatus::pruned ? 1
                   : row.status == SweepStatus::failed ? 3
                                                       : 2;
  const double none = std::numeric_limits<double>::infinity();
  const double value = row.value.mean.value_or(none);
  const double cost = !row.value.mean ? none : better == Better::lower ? value : -value;
  return {row.value.mean || rank > 1 ? rank : 2, rank == 1 ? -row.epochs : 0, cost, row.group};
}

/// Returns the row that others are compared with, if it is complete.
SweepRow* reference_of(std::vector<SweepRow>& rows, Against against) {
  if (rows.empty()) return nullptr;
  SweepRow& row = against == Against::first ? *std::ranges::min_element(rows, {}, &SweepRow::group)
                                            : rows.front();
  return row.status == SweepStatus::ok && row.value.mean ? &row : nullptr;
}

void compare(std::vector<SweepRow>& rows, const std::map<std::size_t, Runs>& groups,
             Against against) {
  SweepRow* const reference = reference_of(rows, against);
  if (reference == nullptr) return;
  reference->is_reference = true;
  for (SweepRow& row : rows) {
    if (row.is_reference || row.status != SweepStatus::ok) continue;
    row.difference = difference_of(groups.at(reference->group), groups.at(row.group));
    if (const auto& ci = row.difference.ci95) row.tied = ci->low <= 0 && 0 <= ci->high;
  }
}

/// Returns the last component of each key, or the whole keys if two would be equal.
std::vector<std::string> short_names(const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const std::string& key : keys) names.push_back(key.substr(key.rfind('.') + 1));
  const std::set<std::string> unique(names.begin(), names.end());
  return unique.size() == names.size() ? names : keys;
}

std::string interval_text(const MeanInterval& value) {
  if (!value.ci95) return "-";
  return fmt::format("[{}, {}]", metric_text(value.ci95->low), metric_text(value.ci95->high));
}

std::string difference_text(const SweepRow& row) {
  if (row.is_reference) return "reference";
  if (!row.difference.mean) return "-";
  const double mean = *row.difference.mean;
  const std::string text = (mean < 0 ? "" : "+") + metric_text(mean);
  return row.difference.ci95 ? text + " " + interval_text(row.difference) : text;
}

std::string status_text(const SweepRow& row) {
  const std::string name = enum_name(row.status);
  return row.status == SweepStatus::pruned ? fmt::format("{} at epoch {}", name, row.epochs) : name;
}

std::string counts_text(const Sweep& sweep) {
  std::string text;
  for (const SweepStatus status : {SweepStatus::ok, SweepStatus::pruned, SweepStatus::failed,
                                   SweepStatus::running, SweepStatus::pending}) {
    const std::size_t runs = runs_with(sweep, status);
    if (runs > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", runs, enum_name(status));
  }
  return text;
}

std::string tied_text(const std::vector<SweepRow>& rows) {
  std::size_t compared = 0;
  std::size_t tied = 0;
  bool has_one_seed = false;
  const SweepRow* reference = nullptr;
  for (const SweepRow& row : rows) {
    if (row.is_reference) reference = &row;
    if (row.tied) ++compared;
    if (row.tied == true) ++tied;
    has_one_seed = has_one_seed || (row.difference.mean && !row.difference.ci95);
  }
  if (compared > 0)
    return fmt::format(
        "{} of {} other settings cannot be distinguished from the reference: the 95 % interval of "
        "the difference (of runs with the same {}) includes 0.\n",
        tied, compared, rows.front().folds.empty() ? "seed" : "fold");
  if (reference == nullptr || !has_one_seed) return "";
  return "One seed shows no variance, so the order of similar settings may be chance: add "
         "--seeds 0,1,2.\n";
}

Json mean_json(const MeanInterval& value) {
  return JSON_FIELDS(value, mean, deviation, ci95, count);
}

std::string value_text(const std::optional<double>& value) {
  return value ? metric_text(*value) : "-";
}

Json overrides_json(const Overrides& overrides) {
  Json object = Json::object();
  for (const auto& [key, value] : overrides) {
    // A number if the text is one, because pages use numbers as axes.
    const Json parsed = parse_json(value);
    object[key] = parsed.is_discarded() ? Json(value) : parsed;
  }
  return object;
}

Json run_json(const SweepRun& run) {
  return joined({{{"id", run.id}, {"overrides", overrides_json(run.overrides)}},
                 JSON_FIELDS(run, seed, fold, status, exit_code, message, metrics, value, epochs,
                             wall_s, pruned_at, group, run_dir)});
}

Json row_json(const SweepRow& row, std::size_t rank) {
  Json folds = Json::array();
  for (const std::optional<double>& value : row.folds) folds.push_back(json_value(value));
  return joined({{{"rank", rank},
                  {"group", row.group},
                  {"overrides", overrides_json(row.overrides)},
                  {"status", enum_name(row.status)},
                  {"runs", row.run_ids},
                  {"value", mean_json(row.value)},
                  {"folds", folds},
                  {"difference", mean_json(row.difference)},
                  {"reference", row.is_reference}},
                 JSON_FIELDS(row, tied, epochs, wall_s)});
}

}  // namespace

std::size_t folds_of(const Sweep& sweep) {
  int folds = 0;
  for (const SweepRun& run : sweep.runs) folds = std::max(folds, run.fold.value_or(-1) + 1);
  return static_cast<std::size_t>(folds);
}

std::vector<std::string> sweep_keys(const Sweep& sweep) {
  std::vector<std::string> keys;
  for (const SweepRun& run : sweep.runs) {
    for (const auto& [key, value] : run.overrides) add_new(keys, key);
  }
  return keys;
}

std::string override_of(const Overrides& overrides, const std::string& key) {
  const auto found = std::ranges::find(overrides, key, &std::pair<std::string, std::string>::first);
  return found == overrides.end() ? std::string() : found->second;
}

std::size_t runs_with(const Sweep& sweep, SweepStatus status) {
  return static_cast<std::size_t>(std::ranges::count(sweep.runs, status, &SweepRun::status));
}

std::vector<SweepRow> sweep_rows(const Sweep& sweep) {
  std::map<std::size_t, Runs> groups;
  for (const SweepRun& run : sweep.runs) groups[run.group].push_back(&run);
  std::vector<SweepRow> rows;
  for (const auto& [group, runs] : groups) rows.push_back(row_of(group, runs));
  std::ranges::sort(rows, {}, [&](const SweepRow& row) { return place_of(row, sweep.better); });
  compare(rows, groups, sweep.against);
  return rows;
}

Table sweep_table(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  const std::vector<std::string> keys = sweep_keys(sweep);
  std::vector<Column> columns{"rank"};
  for (const std::string& name : short_names(keys)) columns.push_back({printable(name)});
  const std::size_t folds = folds_of(sweep);
  columns.push_back({printable(sweep.monitor)});
  if (folds > 0) columns.push_back({"deviation"});
  columns.insert(columns.end(), {"95 % interval", "difference [95 %]"});
  const std::size_t shown = folds <= kMostFoldColumns ? folds : 0;
  for (std::size_t fold = 0; fold < shown; ++fold)
    columns.push_back({fmt::format("fold {}", fold)});
  columns.insert(columns.end(), {"runs", "epochs", "time", left("status")});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SweepRow& row = rows[i];
    std::vector<std::string> cells{std::to_string(i + 1)};
    for (const std::string& key : keys) cells.push_back(printable(override_of(row.overrides, key)));
    cells.push_back(value_text(row.value.mean));
    if (folds > 0) cells.push_back(value_text(row.value.deviation));
    cells.insert(cells.end(), {interval_text(row.value), difference_text(row)});
    for (std::size_t fold = 0; fold < shown; ++fold)
      cells.push_back(value_text(row.folds.at(fold)));
    cells.insert(cells.end(),
                 {std::to_string(row.run_ids.size()), std::to_string(row.epochs),
                  row.wall_s > 0 ? human_duration(row.wall_s) : "-", status_text(row)});
    table.add(std::move(cells));
  }
  return table;
}

std::string sweep_notes(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  std::string text = fmt::format("{} runs: {}.\n", sweep.runs.size(), counts_text(sweep));
  text += fmt::format(
      "{} ({} is better): the best epoch of each run, averaged over the {}. 95 % interval: the "
      "confidence interval of this mean (Student's t{}). Difference: compared with the row "
      "'reference', with its 95 % confidence interval. Time: mean of the runs.\n",
      printable(sweep.monitor), sweep.better == Better::lower ? "lower" : "higher",
      folds_of(sweep) > 0 ? "folds" : "seeds",
      folds_of(sweep) > 0 ? "; approximate, since folds share training samples" : "");
  text += tied_text(rows);
  for (const SweepRun& run : sweep.runs) {
    if (run.status != SweepStatus::failed) continue;
    text += fmt::format("Failed: {} (exit {}): {}; see {}\n", run.id, run.exit_code.value_or(1),
                        one_line(run.message), printable(run.run_dir));
  }
  return text;
}

Json sweep_document(const Sweep& sweep, int exit_code) {
  Json summary = Json::array();
  const std::vector<SweepRow> rows = sweep_rows(sweep);
  for (std::size_t i = 0; i < rows.size(); ++i) summary.push_back(row_json(rows[i], i + 1));
  Json counts = Json::object();
  for (const char* name : enum_names(SweepStatus()))
    counts[name] = runs_with(sweep, *enum_called<SweepStatus>(name));
  const auto tied = std::ranges::count(rows, std::optional(true), &SweepRow::tied);
  return {{"schema", "trainctl.sweep/2"},
          {"config", sweep.config},
          {"folder", sweep.folder},
          {"kind", sweep.kind},
          {"asha", sweep.prunes},
          {"monitor", sweep.monitor},
          {"mode", sweep.better == Better::lower ? "min" : "max"},
          {"against", enum_name(sweep.against)},
          {"exit_code", exit_code},
          {"counts", counts},
          {"tied", tied},
          {"folds", folds_of(sweep)},
          {"runs", json_list(sweep.runs, run_json)},
          {"summary", summary}};
}

Table sweep_results(const Sweep& sweep) {
  const std::vector<std::string> keys = sweep_keys(sweep);
  std::vector<std::string> metrics;
  for (const SweepRun& run : sweep.runs) {
    for (const auto& [name, value] : run.metrics) add_new(metrics, name);
  }
  const bool has_folds = folds_of(sweep) > 0;
  std::vector<Column> columns{"id", "status", "exit_code", "seed"};
  if (has_folds) columns.push_back({"fold"});
  columns.insert(columns.end(), keys.begin(), keys.end());
  columns.push_back("best " + sweep.monitor);
  columns.insert(columns.end(), metrics.begin(), metrics.end());
  columns.insert(columns.end(), {"epochs", "wall_s", "pruned_at", "run_dir"});
  Table table(std::move(columns));
  for (const SweepRun& run : sweep.runs) {
    std::vector<std::string> cells{run.id, enum_name(run.status),
                                   run.exit_code ? std::to_string(*run.exit_code) : "",
                                   std::to_string(run.seed)};
    if (has_folds) cells.push_back(run.fold ? std::to_string(*run.fold) : "");
    for (const std::string& key : keys) cells.push_back(override_of(run.overrides, key));
    cells.push_back(run.value ? exact_text(*run.value) : "");
    for (const std::string& name : metrics) {
      const auto value = events::find_metric(run.metrics, name);
      cells.push_back(value ? exact_text(*value) : "");
    }
    cells.insert(cells.end(), {std::to_string(run.epochs), exact_text(run.wall_s),
                               run.pruned_at ? std::to_string(*run.pruned_at) : "", run.run_dir});
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace trainctl::report
