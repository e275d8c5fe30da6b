#pragma once

#include "report/compare/bench_scaling.hpp"
#include "study/bench/trials.hpp"
#include "study/run/run.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::study {

/// One key of the experiment file and the values to try, as YAML text.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};

/// Splits at commas outside brackets and quotes, and strips the surrounding spaces.
std::vector<std::string> split_values(std::string_view text);
/// Returns the arguments of a call: "range(1,10)" with name "range" -> "1,10". Returns nullopt if
/// the text is not a call of this name.
std::optional<std::string_view> call_of(std::string_view text, std::string_view name);

/// Parses "0,4,8", "range(1,10,3)" (start, exclusive stop, step) or "choice(a,b)". Commas inside
/// brackets and quotes do not split: "[128,64],[256]" has two values. Throws Error(config) for an
/// empty list, an empty value or a repeated value.
Axis parse_axis(std::string key, std::string_view values);
/// Parses the same from "key=values".
Axis parse_grid(std::string_view text);

/// One point of the grid.
struct Setting {
  std::string technique;  // "num_workers=4, devices=2"; "as configured" without an axis
  std::vector<std::pair<std::string, std::string>> values;   // key -> value
  [[nodiscard]] std::vector<std::string> overrides() const;  // "loader.num_workers=4"
};

/// Returns every combination; the last axis varies fastest. Names use the last component of each
/// key ("strategy" for distributed.type), or the whole keys if two would be equal. Throws
/// Error(config) for a repeated key or more than 1,000 combinations.
std::vector<Setting> product(std::span<const Axis> axes);

/// Returns the number of devices of a setting; nullopt if the setting does not set it. Throws
/// Error(config) when the value is not a number, such as `auto`.
std::optional<int> devices_of(const Setting& setting);

/// Returns the batch size per device of `setting`, from the experiment with the setting's
/// overrides.
using BatchOf = std::function<std::int64_t(const Setting& setting)>;

/// Strong scaling: sets the batch size per device so that a step has as many samples as with the
/// first number of devices. Throws Error(config) when the samples cannot be divided evenly, or when
/// no setting names devices.
void keep_global_batch(std::vector<Setting>& settings, const BatchOf& batch_of);

/// The options of `trainctl bench`.
struct BenchOptions {
  std::vector<Axis> axes;                  // the first axis varies slowest in the table
  std::string against;                     // a patch written by tune; empty: none
  std::optional<report::Scaling> scaling;  // absent: weak, if device counts are compared
  fs::path root = "runs";                  // parent folder of the runs
  std::string fail_on;                     // conditions; empty: none
  fs::path baseline;                       // compared with by the conditions; empty: the first row
  bool force_baseline = false;             // accept a baseline of another machine or config
};

/// A bench before its runs: the settings, and the request for each of them.
struct BenchPlan {
  std::vector<Setting> settings;
  std::vector<RunRequest> requests;  // one per setting
};

/// Loads and checks every setting before the first process starts. Throws Error.
BenchPlan plan_bench(const BenchOptions& options, const Invocation& invocation,
                     config::Diagnostics& diagnostics);

/// Returns the keys that differ between settings.
std::vector<std::string> varied_keys(const BenchPlan& plan);

/// Choices of a baseline's runs, which the runs of the bench use without a warm-up: the number of
/// threads if all settings have the same number of devices, and a memory format for each setting
/// with the same layout_inputs().
struct Pinning {
  std::optional<int> threads = {};
  std::map<std::string, bool> layouts = {};
};

/// The result of run_bench().
struct BenchRows {
  std::vector<report::BenchRow> rows;
  WarmUp warm_up;  // the first warm-up; if a signal ended it, there are no rows
  std::map<std::string, bool> layouts;  // trainer.channels_last of the runs, by layout_inputs()
};

/// Makes the runs. By default each run measures the best number of threads and memory format
/// itself, and may choose differently from the row that it is compared with. Therefore one warm-up
/// run of one batch decides for all settings that share the cores in the same way, and for all
/// settings with the same model, data and precision. If the warm-up fails, the runs of its rows
/// report why. A run that is not finished at the end of the rounds is killed, and no other run is
/// started.
BenchRows run_bench(BenchPlan plan, const Pinning& pinning, const Rounds& rounds,
                    const PrintLine& print);

}  // namespace trainctl::study
