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

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace trainctl::study {
namespace {

constexpr std::uint64_t kMostBytes = 64 << 20;

// Names and places; and what a bench turns off, since a second attempt would be timed as the first.
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

bool lies_in(const std::string& path, const std::string& key) {
  return path == key || (path.starts_with(key) && path[key.size()] == '.');
}

bool is_left_out(const std::string& path, std::span<const std::string> varied) {
  const auto holds = [&](const std::string& key) { return lies_in(path, key); };
  return std::ranges::any_of(kNoWork, holds) || std::ranges::any_of(varied, holds);
}

void add_value(Hasher& hasher, const std::string& path, const std::string& value) {
  for (const std::string& part : {path, value}) {
    hasher.add(part);
    hasher.add(std::string_view("\0", 1));
  }
}

Json read_json(const fs::path& file) {
  const std::string text = read_file(file, kMostBytes, ReadFailure::config);
  Json document = Json::parse(text, nullptr, false);
  ENSURE(config, document.is_object(), "{} is no JSON document, or is cut off",
         printable(file.string()));
  return document;
}

std::optional<double> number_in(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

void take(report::Samples& samples, const std::string& name, std::optional<double> value) {
  if (value) samples[name] = {*value};
}

void take_metrics(report::Samples& samples, const Json& result, const std::string& group) {
  const auto metrics = result.find(group);
  if (metrics == result.end() || !metrics->is_object()) return;
  for (const auto& [name, value] : metrics->items()) {
    if (value.is_number()) samples[group + "/" + name] = {value.get<double>()};
  }
}

std::optional<double> cell_number(const std::vector<std::string>& cells, std::size_t column) {
  if (column >= cells.size()) return std::nullopt;
  return parse_number<double>(cells[column]);
}

/// A column of a CSV file; empty where the file, the column or one of its numbers is missing.
std::vector<double> column_of(const fs::path& file, const std::string& name) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  const std::vector<std::string> lines =
      split(read_file(file, kMostBytes, ReadFailure::config), '\n');
  const std::vector<std::string> names = report::csv_cells(lines.front());
  const auto column = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  std::vector<double> values;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const auto value = cell_number(report::csv_cells(lines[i]), column);
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

report::Samples samples_of_run(const fs::path& folder, const Json& result) {
  report::Samples samples;
  take(samples, "total_s", number_in(result, "wall_s"));
  take(samples, "samples_per_s", number_in(result, "samples_per_s"));
  const Json timing = result.value("timing", Json::object());
  take(samples, "rss_mb", number_in(timing, "rss_mb"));
  take(samples, "gpu_mem_mb", number_in(timing, "gpu_mem_mb"));
  take_metrics(samples, result, "train");
  take_metrics(samples, result, "val");
  const report::Trial trial{.epoch_s = column_of(folder / "timing.csv", "wall_s")};
  if (!trial.epoch_s.empty()) samples["epoch_s"] = {report::steady_epoch_s(trial)};
  const std::vector<double> first = column_of(folder / "timing.csv", "first_batch_s");
  if (!first.empty()) samples["first_batch_s"] = {first.front()};
  return samples;
}

/// Of {value, why} in a manifest; empty where it is no number of threads.
std::optional<int> thread_count(const Json& threads) {
  constexpr double kMost = 4096;
  const auto value = number_in(threads, "value");
  if (!value || !(*value >= 1) || *value > kMost) return std::nullopt;
  return static_cast<int>(*value);
}

void ensure_readable(const report::Baseline& baseline) {
  config::Diagnostics problems;
  const config::Node tree =
      config::parse_yaml(config::make_source("the baseline's config", baseline.config_resolved),
                         baseline.config_resolved, problems);
  ENSURE(config, problems.error_count() == 0 && !tree.broken,
         "the baseline {} holds a config that cannot be read", printable(baseline.path));
}

/// Reads the memory format of images that the run of the manifest had.
void take_layout(const Json& manifest, report::Baseline& baseline) {
  const Json& value = report::member(report::member(manifest, "channels_last"), "value");
  if (!value.is_boolean()) return;
  ensure_readable(baseline);
  baseline.channels_last[layout_inputs(baseline.config_resolved)] = value.get<bool>();
}

report::Baseline run_as_baseline(const fs::path& folder) {
  const Json result = read_json(folder / "result.json");
  const std::string path = printable(folder.string());
  ENSURE(config, number_in(result, "exit_code") == 0.0,
         "the baseline {} is a run that did not end well: give one whose exit code was 0", path);
  report::Baseline baseline;
  baseline.path = folder.string();
  const Json manifest = read_json(folder / "manifest.json");
  baseline.machine = report::machine_of_manifest(manifest);
  const auto threads = manifest.find("num_threads");
  if (threads != manifest.end()) baseline.num_threads = thread_count(*threads);
  baseline.config_resolved =
      read_file(folder / "config.resolved.yaml", kMostBytes, ReadFailure::config);
  take_layout(manifest, baseline);
  baseline.rows.push_back({"the run", {}, samples_of_run(folder, result)});
  return baseline;
}

/// Those of this bench, and those of the baseline.
std::vector<std::string> all_varied(const report::Baseline& baseline,
                                    std::span<const std::string> varied) {
  std::set<std::string> keys(varied.begin(), varied.end());
  for (const report::BaselineRow& row : baseline.rows) {
    for (const auto& [key, value] : row.settings) keys.insert(key);
  }
  return {keys.begin(), keys.end()};
}

}  // namespace

report::Baseline load_baseline(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return run_as_baseline(path);
  return report::read_baseline(read_file(path, kMostBytes, ReadFailure::config), path.string());
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
    const auto holds = [&](const std::string& key) { return lies_in(path, key); };
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
    differences.emplace_back("it does not say under which config it was made");
    return differences;
  }
  ensure_readable(baseline);
  const std::vector<std::string> keys = all_varied(baseline, varied);
  for (const ConfigChange& change : config_changes(baseline.config_resolved, now)) {
    if (!is_left_out(change.path, keys))
      differences.push_back(fmt::format("{}: {} there, {} here", change.path,
                                        printable(change.before), printable(change.now)));
  }
  return differences;
}

}  // namespace trainctl::study
