#include "report/compare/bench_scaling.hpp"

#include "base/numbers.hpp"

namespace trainctl::report {
namespace {

constexpr const char* kDevices = "trainer.devices";
constexpr const char* kBatch = "loader.batch_size";

/// Returns a setting that is a positive integer.
std::optional<int> number_of(const BenchRow& row, const std::string& wanted) {
  for (const auto& [key, value] : row.settings) {
    if (key != wanted) continue;
    const auto number = parse_number<int>(value);
    return number && *number > 0 ? number : std::nullopt;
  }
  return std::nullopt;
}

std::optional<int> devices_of(const BenchRow& row) { return number_of(row, kDevices); }

/// Returns the settings except the number of devices. For strong scaling the batch size per device
/// follows from that number, so the global batch size replaces it.
std::map<std::string, std::string> others(const BenchRow& row, Scaling mode) {
  std::map<std::string, std::string> settings(row.settings.begin(), row.settings.end());
  settings.erase(kDevices);
  const auto batch = number_of(row, kBatch);
  if (mode == Scaling::strong && batch)
    settings[kBatch] = std::to_string(std::int64_t{*batch} * devices_of(row).value_or(1));
  return settings;
}

/// Returns the seconds per training sample for each repeat.
std::vector<double> sample_seconds(const BenchRow& row) {
  std::vector<double> seconds;
  for (const Trial& trial : row.trials)
    seconds.push_back(trial.samples_per_s > 0 ? 1 / trial.samples_per_s : 0);
  return seconds;
}

Speedup divided(Speedup speedup, double by) {
  if (speedup.value) *speedup.value /= by;
  if (speedup.ci95) *speedup.ci95 = {speedup.ci95->low / by, speedup.ci95->high / by};
  return speedup;
}

template <class Value>
std::optional<double> middle(const BenchRow& row, Value Trial::*value) {
  std::vector<double> values;
  for (const Trial& trial : row.trials) {
    if (const std::optional<double> found = trial.*value) values.push_back(*found);
  }
  return values.empty() ? std::nullopt : std::optional(median(values));
}

std::optional<SlowRank> slowest_of(const BenchRow& row) {
  std::optional<SlowRank> found;
  for (const Trial& trial : row.trials) {
    if (trial.slowest && (!found || trial.slowest->slowdown > found->slowdown))
      found = trial.slowest;
  }
  return found;
}

ScalingRow scaled(std::span<const BenchRow> rows, std::size_t base, std::size_t row) {
  ScalingRow found{.row = row, .base = base, .devices = devices_of(rows[row]).value_or(1)};
  if (!rows[row].trials.empty()) found.global_batch = rows[row].trials.front().global_batch;
  found.speedup = speedup(sample_seconds(rows[base]), sample_seconds(rows[row]));
  const double times = static_cast<double>(found.devices) / devices_of(rows[base]).value_or(1);
  found.efficiency = divided(found.speedup, times);
  found.exposed_s = middle(rows[row], &Trial::exposed_s);
  found.exposed_share = middle(rows[row], &Trial::exposed_share);
  found.slowest = slowest_of(rows[row]);
  found.loss_gap = loss_gap(rows[base], rows[row]);
  return found;
}

std::string range_text(const Speedup& speedup, double scale, int digits) {
  if (!speedup.value) return "-";
  std::string text = fmt::format("{:.{}f}", scale * *speedup.value, digits);
  if (speedup.ci95)
    text += fmt::format(" [{:.{}f}, {:.{}f}]", scale * speedup.ci95->low, digits,
                        scale * speedup.ci95->high, digits);
  return text;
}

std::string exposed_text(const ScalingRow& row) {
  if (!row.exposed_s) return "-";
  const std::string share =
      row.exposed_share ? " (" + percent_text(*row.exposed_share) + " %)" : "";
  return human_duration(*row.exposed_s) + share;
}

std::string slowest_text(const ScalingRow& row) {
  if (!row.slowest) return "-";
  return fmt::format("rank {} ({:+.0f} %)", row.slowest->rank, 100 * row.slowest->slowdown);
}

Json row_json(std::span<const BenchRow> rows, const ScalingRow& row) {
  const bool ran = !rows[row.row].trials.empty();
  return joined(
      {{{"technique", rows[row.row].technique},
        {"base", rows[row.base].technique},
        {"devices", row.devices},
        {"global_batch", row.global_batch > 0 ? Json(row.global_batch) : Json(nullptr)},
        {"num_threads", ran ? Json(rows[row.row].trials.front().num_threads) : Json(nullptr)}},
       JSON_FIELDS(row, speedup, efficiency, exposed_s, exposed_share),
       {{"slowest_rank", or_null(row.slowest, JSON_OF(rank, slowdown))},
        {"same_batches", or_null(same_batches(rows[row.base], rows[row.row]))},
        {"loss_gap", or_null(row.loss_gap)}}});
}

}  // namespace

std::vector<ScalingRow> scaling_rows(std::span<const BenchRow> rows, Scaling mode) {
  std::vector<ScalingRow> found;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!devices_of(rows[i])) continue;
    std::size_t base = 0;
    while (!devices_of(rows[base]) || others(rows[base], mode) != others(rows[i], mode)) ++base;
    found.push_back(scaled(rows, base, i));
  }
  return found.size() < 2 ? std::vector<ScalingRow>() : found;
}

Table scaling_table(std::span<const BenchRow> rows, std::span<const ScalingRow> scaling) {
  Table table({left("settings"), "samples/step", "samples/s", "speed-up [95 %]",
               "efficiency % [95 %]", "exposed/step", "slowest rank", left("batches"),
               left("losses")});
  for (const ScalingRow& row : scaling) {
    const bool is_base = row.row == row.base;
    const auto rate = middle(rows[row.row], &Trial::samples_per_s);
    table.add({printable(rows[row.row].technique),
               row.global_batch > 0 ? with_thousands(row.global_batch) : "-",
               rate ? rate_text(*rate) : "-", is_base ? "baseline" : range_text(row.speedup, 1, 2),
               is_base ? "" : range_text(row.efficiency, 100, 0), exposed_text(row),
               slowest_text(row), same_text(same_batches(rows[row.base], rows[row.row])),
               loss_text(row.loss_gap)});
  }
  return table;
}

std::string scaling_notes(std::span<const ScalingRow> scaling, Scaling mode) {
  if (scaling.empty()) return "";
  std::string text =
      mode == Scaling::strong
          ? "Strong scaling: the global batch size is constant and divided among the devices.\n"
          : "Weak scaling: the batch size per device is constant, so a step has more samples (and "
            "an epoch fewer steps); --scaling strong keeps the global batch size.\n";
  text += fmt::format(
      "Speed-up: training samples/s, without validation and checkpointing, relative to {0} "
      "device{1}. Efficiency: speed-up divided by the ratio of devices. Exposed/step: time of the "
      "all-reduce that the backward pass does not hide, and its share of the step. Slowest rank: "
      "its time for data waits and work, relative to the median rank. Batches and losses: compared "
      "with {0} device{1}.\n",
      scaling.front().devices, plural(scaling.front().devices));
  const bool rounded = std::ranges::any_of(
      scaling, [](const ScalingRow& row) { return row.loss_gap && *row.loss_gap > 0; });
  if (mode == Scaling::strong && rounded)
    text +=
        "Sums over several ranks are rounded differently, so losses agree within the relative "
        "difference in the table, not bit for bit.\n";
  return text;
}

Json scaling_json(std::span<const BenchRow> rows, std::span<const ScalingRow> scaling,
                  Scaling mode) {
  if (scaling.empty()) return nullptr;
  const auto list = json_list(scaling, [&](const ScalingRow& row) { return row_json(rows, row); });
  return {{"mode", enum_name(mode)}, {"rows", list}};
}

}  // namespace trainctl::report
