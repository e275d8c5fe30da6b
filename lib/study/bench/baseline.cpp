#include "study/bench/baseline.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "config/schema/dump.hpp"
#include "config/tree/yaml.hpp"
#include "report/record/run_files.hpp"
#include "report/text/table.hpp"
#include "study/resume/config_changes.hpp"
#include "study/run/run.hpp"

namespace trainctl::study {
namespace {

constexpr std::uint64_t kMostBaselineBytes = 64 << 20;

// Keys for labels and paths, and keys that a bench turns off because a second attempt would be
// included in the measured time.
constexpr std::array kNoWork{"name",
                             "loggers",
                             "profiler",
                             "plugins",
                             "dataset.train.root",
                             "dataset.train.path",
                             "dataset.val.root",
                             "dataset.val.path",
                             "dataset.test",
                             "dataset.cache.local",
                             "dataset.remote",
                             "trainer.max_restarts",
                             "trainer.on_divergence"};

bool is_within(const std::string& path, const std::string& key) {
  return path == key || (path.starts_with(key) && path[key.size()] == '.');
}

bool is_left_out(const std::string& path, std::span<const std::string> varied) {
  const auto holds = [&](const std::string& key) { return is_within(path, key); };
  return std::ranges::any_of(kNoWork, holds) || std::ranges::any_of(varied, holds);
}

void add_value(Hasher& hasher, const std::string& path, const std::string& value) {
  for (const std::string& part : {path, value}) {
    hasher.add(part);
    hasher.add(std::string_view("\0", 1));
  }
}

Json read_json(const fs::path& file) {
  const std::string text = read_file(file, kMostBaselineBytes, ReadFailure::config);
  Json document = parse_json(text);
  ENSURE(config, document.is_object(), "{} is not a JSON object, or the file is truncated",
         printable(file.string()));
  return document;
}

void take(report::Samples& samples, const std::string& name, std::optional<double> value) {
  if (value) samples[name] = {*value};
}

void take_metrics(report::Samples& samples, const Json& result, const std::string& group) {
  const Json& metrics = report::member(result, group);
  if (!metrics.is_object()) return;
  for (const auto& [name, value] : metrics.items()) {
    if (value.is_number()) samples[group + "/" + name] = {value.get<double>()};
  }
}

/// Returns a column of a CSV file; empty if the file, the column or one of its numbers is missing.
std::vector<double> column_of(const fs::path& file, const std::string& name) {
  if (!is_file(file)) return {};
  const std::vector<std::string> lines =
      split(read_file(file, kMostBaselineBytes, ReadFailure::config), '\n');
  const std::vector<std::string> names = report::csv_cells(lines.front());
  const auto column = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  std::vector<double> values;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::vector<std::string> cells = report::csv_cells(lines[i]);
    const auto value = column < cells.size() ? parse_number<double>(cells[column]) : std::nullopt;
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

report::Samples samples_of_run(const fs::path& folder, const Json& result) {
  report::Samples samples;
  take(samples, "total_s", report::finite_at(result, "wall_s"));
  take(samples, "samples_per_s", report::finite_at(result, "samples_per_s"));
  const Json timing = result.value("timing", Json::object());
  take(samples, "rss_mb", report::finite_at(timing, "rss_mb"));
  take(samples, "gpu_mem_mb", report::finite_at(timing, "gpu_mem_mb"));
  take_metrics(samples, result, "train");
  take_metrics(samples, result, "val");
  const report::Trial trial{.epoch_s = column_of(folder / "timing.csv", "wall_s")};
  if (!trial.epoch_s.empty()) samples["epoch_s"] = {report::steady_epoch_s(trial)};
  const std::vector<double> first = column_of(folder / "timing.csv", "first_batch_s");
  if (!first.empty()) samples["first_batch_s"] = {first.front()};
  return samples;
}

void ensure_readable(const report::Baseline& baseline) {
  config::Diagnostics problems;
  const config::Node tree =
      config::parse_yaml(config::make_source("the baseline's config", baseline.config_resolved),
                         baseline.config_resolved, problems);
  ENSURE(config, problems.error_count() == 0 && !tree.broken,
         "cannot parse the config in the baseline {}", printable(baseline.path));
}

/// Reads the memory format of images that the manifest's run used.
void take_layout(const Json& manifest, report::Baseline& baseline) {
  const Json& value = report::member(report::member(manifest, "channels_last"), "value");
  if (!value.is_boolean()) return;
  ensure_readable(baseline);
  baseline.channels_last[layout_inputs(baseline.config_resolved)] = value.get<bool>();
}

report::Baseline run_as_baseline(const fs::path& folder) {
  const Json result = read_json(folder / "result.json");
  const std::string path = printable(folder.string());
  ENSURE(config, report::finite_at(result, "exit_code") == 0.0,
         "the baseline {} is a run that has not succeeded\nhint: use a run with exit code 0", path);
  report::Baseline baseline;
  baseline.path = folder.string();
  const Json manifest = read_json(folder / "manifest.json");
  baseline.machine = report::machine_of_manifest(manifest);
  constexpr double kMostThreads = 4096;
  const auto threads = report::finite_at(report::member(manifest, "num_threads"), "value");
  if (threads && *threads >= 1 && *threads <= kMostThreads)
    baseline.num_threads = static_cast<int>(*threads);
  baseline.config_resolved =
      read_file(folder / "config.resolved.yaml", kMostBaselineBytes, ReadFailure::config);
  take_layout(manifest, baseline);
  baseline.rows.push_back({"the run", {}, samples_of_run(folder, result)});
  return baseline;
}

std::vector<std::string> all_varied(const report::Baseline& baseline,
                                    std::span<const std::string> varied) {
  std::set<std::string> keys(varied.begin(), varied.end());
  for (const report::BaselineRow& row : baseline.rows) {
    for (const auto& [key, value] : row.settings) keys.insert(key);
  }
  return {keys.begin(), keys.end()};
}

void check_options(const BenchOptions& options, const BenchPlan& plan) {
  ENSURE(config, options.baseline.empty() || !options.fail_on.empty(),
         "--baseline needs --fail-on with conditions to check\nhint: for example, add --fail-on "
         "'samples_per_s<-2.5%'");
  ENSURE(config, !options.force_baseline || !options.baseline.empty(),
         "--force-baseline needs --baseline");
  ENSURE(config, options.fail_on.empty() || !options.baseline.empty() || plan.settings.size() > 1,
         "--fail-on needs a second setting or a baseline to compare\nhint: add settings, as in "
         "--workers 0,4, or --baseline FILE");
}

const report::BaselineRow* row_in(const report::Baseline& baseline, bool forced,
                                  const std::vector<std::pair<std::string, std::string>>& values) {
  return forced ? report::row_for(baseline, values) : comparable_row(baseline, values);
}

/// Checks that at least one setting is in the file, before the runs rather than an hour later.
void ensure_rows(const report::Baseline& baseline, const BenchOptions& options,
                 const BenchPlan& plan) {
  const bool any = std::ranges::any_of(plan.settings, [&](const Setting& setting) {
    return row_in(baseline, options.force_baseline, setting.values) != nullptr;
  });
  std::vector<std::string> techniques;
  for (const report::BaselineRow& row : baseline.rows) techniques.push_back(row.technique);
  ENSURE(config, any, "the baseline {} has none of the settings to measure, only: {}",
         printable(baseline.path), shortened(techniques));
}

/// Throws Error(config) that suggests the experiment with runs, or the file, with the most similar
/// name.
void check_exists(const std::string& baseline) {
  if (path_exists(baseline)) return;
  std::vector<std::string> names;
  for (const fs::path& run : paths_in("runs")) names.push_back(run.filename().string());
  const auto near = nearest(fs::path(baseline).filename().string(), names);
  const std::string hint =
      near ? fmt::format("did you mean '{}'?", *near) : nearest_file_hint(baseline);
  THROW(config,
        "cannot find the baseline '{}': it must be a file, a run folder or an experiment with "
        "runs in runs/{}",
        printable(baseline), hint.empty() ? "" : "\nhint: " + printable(hint));
}

report::Baseline checked_baseline(const BenchOptions& options, const BenchPlan& plan,
                                  const Json& machine, const PrintLine& print) {
  check_exists(options.baseline);
  report::Baseline baseline = load_baseline(options.baseline);
  const std::vector<std::string> differences =
      baseline_differences(baseline, plan.requests.front().loaded, machine, varied_keys(plan));
  ENSURE(config, differences.empty() || options.force_baseline,
         "the baseline {} is not comparable with this bench: {}\nhint: save a new "
         "baseline with 'bench --save', or add --force-baseline",
         printable(baseline.path), shortened(differences, 8));
  ensure_rows(baseline, options, plan);
  if (!differences.empty())
    print(fmt::format("baseline  compared despite differences: {}", shortened(differences, 8)));
  return baseline;
}

}  // namespace

report::Baseline load_baseline(const fs::path& path) {
  if (is_folder(path)) return run_as_baseline(path);
  return report::read_baseline(read_file(path, kMostBaselineBytes, ReadFailure::config),
                               path.string());
}

const report::BaselineRow* comparable_row(
    const report::Baseline& baseline,
    const std::vector<std::pair<std::string, std::string>>& settings) {
  const report::BaselineRow* row = report::row_for(baseline, settings);
  const bool has_all = row == nullptr || row->settings.size() == settings.size();
  if (has_all || baseline.config_resolved.empty()) return row;
  const auto there = resolved_values(baseline.config_resolved);
  const bool same = std::ranges::all_of(settings, [&](const auto& setting) {
    const auto found = there.find(setting.first);
    return found != there.end() && found->second == setting.second;
  });
  return same ? row : nullptr;
}

std::string resolved_config(const spec::Loaded& loaded) {
  return config::dump(spec::resolved_tree(loaded));
}

std::string layout_inputs(const std::string& resolved) {
  constexpr std::array kInputs{"model", "dataset.train", "trainer.precision",
                               "trainer.accelerator"};
  Hasher hasher;
  for (const auto& [path, value] : resolved_values(resolved)) {
    const auto holds = [&](const std::string& key) { return is_within(path, key); };
    if (std::ranges::any_of(kInputs, holds) && !is_left_out(path, {}))
      add_value(hasher, path, value);
  }
  return hasher.hex();
}

std::string config_hash(const spec::Loaded& loaded, std::span<const std::string> varied) {
  Hasher hasher;
  for (const auto& [path, value] : resolved_values(resolved_config(loaded))) {
    if (!is_left_out(path, varied)) add_value(hasher, path, value);
  }
  return hasher.hex();
}

std::vector<std::string> baseline_differences(const report::Baseline& baseline,
                                              const spec::Loaded& now, const Json& here,
                                              std::span<const std::string> varied) {
  std::vector<std::string> differences = report::machine_differences(baseline.machine, here);
  if (baseline.config_resolved.empty()) {
    differences.emplace_back("the baseline does not contain the config of its runs");
    return differences;
  }
  ensure_readable(baseline);
  const std::vector<std::string> keys = all_varied(baseline, varied);
  for (const ConfigChange& change : config_changes(baseline.config_resolved, now)) {
    if (!is_left_out(change.path, keys))
      differences.push_back(fmt::format("{}: {} in the baseline, {} in this bench", change.path,
                                        printable(change.before), printable(change.now)));
  }
  return differences;
}

BenchGate::BenchGate(const BenchOptions& options, const BenchPlan& plan, const Json& machine,
                     const PrintLine& print) {
  check_options(options, plan);
  forced_ = options.force_baseline;
  if (options.fail_on.empty()) return;
  const std::vector<std::string> metrics = metric_columns(plan.requests.front().loaded.experiment);
  conditions_ = report::parse_conditions(options.fail_on, metrics);
  if (!options.baseline.empty()) baseline_ = checked_baseline(options, plan, machine, print);
}

std::vector<report::GateComparison> BenchGate::contests(
    std::span<const report::BenchRow> rows) const {
  std::vector<report::GateComparison> contests;
  for (const report::BenchRow& row : rows) {
    if (!baseline_ && &row == &rows.front()) continue;
    report::GateComparison contest{.technique = row.technique,
                                   .against = "'" + rows.front().technique + "'",
                                   .base = {},
                                   .now = report::samples_of(row.trials),
                                   .pairing = pairing()};
    if (!baseline_) {
      contest.base = report::samples_of(rows.front().trials);
    } else if (const auto* found = row_in(*baseline_, forced_, row.settings)) {
      contest.against = fmt::format("'{}' of {}", found->technique, baseline_->path);
      contest.base = found->samples;
    } else {
      continue;  // see not_compared()
    }
    contests.push_back(std::move(contest));
  }
  return contests;
}

std::vector<std::string> BenchGate::not_compared(std::span<const report::BenchRow> rows) const {
  std::vector<std::string> techniques;
  for (const report::BenchRow& row : rows) {
    if (baseline_ && row_in(*baseline_, forced_, row.settings) == nullptr)
      techniques.push_back(row.technique);
  }
  return techniques;
}

std::vector<report::Finding> BenchGate::check(std::span<const report::BenchRow> rows) const {
  if (conditions_.empty() || rows.empty()) return {};
  const std::vector<report::GateComparison> all = contests(rows);
  return report::evaluate_conditions(conditions_, all);
}

}  // namespace trainctl::study
