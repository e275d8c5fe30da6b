#include "base/strings.hpp"
#include "report/compare/comparison.hpp"
#include "report/html/curves.hpp"
#include "report/text/format.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {
namespace {

std::string number_text(double value) {
  return std::abs(value) >= 1000 && std::isfinite(value) ? rate_text(value) : metric_text(value);
}

std::string signed_text(double value) { return (value > 0 ? "+" : "") + number_text(value); }

std::string share_text(const MeanDifference& difference) {
  if (difference.base == 0 || !std::isfinite(difference.difference)) return "";
  return fmt::format("{:+.1f} %", 100 * difference.difference / std::abs(difference.base));
}

std::string difference_text(const std::optional<MeanDifference>& difference) {
  if (!difference) return "";
  const double value = difference->difference;
  return value == 0 ? "0" : signed_text(value);
}

std::string interval_text(const std::optional<MeanDifference>& difference) {
  if (!difference || !difference->ci95) return "";
  return fmt::format("[{}, {}]", signed_text(difference->ci95->low),
                     signed_text(difference->ci95->high));
}

std::string heading(const Group& group) {
  const std::string label = printable(group.label);
  return group.members.size() > 1 ? fmt::format("{} (mean of {} runs)", label, group.members.size())
                                  : label;
}

Table measures_table(const RunComparison& compared) {
  const bool intervals = std::ranges::all_of(
      compared.groups, [](const Group& group) { return group.members.size() > 1; });
  std::vector<Column> columns{left("measure"), heading(compared.groups.front())};
  for (std::size_t i = 1; i < compared.groups.size(); ++i) {
    columns.push_back({heading(compared.groups[i])});
    columns.push_back({"difference"});
    if (intervals) columns.push_back({"95 % interval"});
    columns.push_back({"relative"});
  }
  Table table(columns);
  for (const std::string& name : measure_names(compared)) {
    const auto values = values_of(compared, name);
    const auto differences = differences_of(compared, name);
    const auto mean_text = [](const std::vector<double>& all) {
      return all.empty() ? "-" : number_text(mean(all));
    };
    std::vector<std::string> cells{printable(name), mean_text(values[0])};
    for (std::size_t i = 1; i < values.size(); ++i) {
      cells.push_back(mean_text(values[i]));
      cells.push_back(difference_text(differences[i - 1]));
      if (intervals) cells.push_back(interval_text(differences[i - 1]));
      cells.push_back(differences[i - 1] ? share_text(*differences[i - 1]) : "");
    }
    table.add(std::move(cells));
  }
  return table;
}

Table config_table(const RunComparison& compared) {
  std::vector<Column> columns{left("key")};
  for (const Group& group : compared.groups) columns.push_back(left(printable(group.label)));
  Table table(columns);
  for (const ConfigDifference& difference : config_differences(compared)) {
    std::vector<std::string> cells{printable(difference.key)};
    for (const std::string& value : difference.values) cells.push_back(clip(printable(value), 60));
    table.add(std::move(cells));
  }
  return table;
}

/// Returns the seconds of a steady epoch by part, averaged over the runs.
events::Timing mean_epoch(const Group& group) {
  std::vector<events::EpochEnded> epochs;
  for (const RunFiles& run : group.runs) {
    const auto steady = without_first<events::EpochEnded>(run.epochs);
    epochs.insert(epochs.end(), steady.begin(), steady.end());
  }
  events::Timing sum = sum_timing(epochs);
  const auto count = static_cast<double>(std::max<std::size_t>(epochs.size(), 1));
  for (const events::TimingPhase& phase : events::kTimingPhases) sum.*phase.seconds /= count;
  sum.wall_s /= count;
  return sum;
}

Table time_table(const RunComparison& compared) {
  std::vector<Column> columns{left("mean per epoch")};
  std::vector<events::Timing> epochs;
  for (const Group& group : compared.groups) {
    columns.push_back({printable(group.label)});
    columns.push_back({"% of epoch"});
    epochs.push_back(mean_epoch(group));
  }
  Table table(columns);
  const auto row = [&](const std::string& name, double events::Timing::*seconds) {
    std::vector<std::string> cells{name};
    for (const events::Timing& epoch : epochs) {
      cells.push_back(fmt::format("{:.3f} s", epoch.*seconds));
      cells.push_back(epoch.wall_s > 0 ? percent_text(epoch.*seconds / epoch.wall_s) : "");
    }
    table.add(std::move(cells));
  };
  const std::vector<const RunFiles*> runs = runs_of(compared);
  for (const events::TimingPhase& phase : events::kTimingPhases) {
    const bool is_there = std::ranges::any_of(
        epochs, [&](const events::Timing& epoch) { return epoch.*phase.seconds > 0; });
    if (is_there) row(phase_label(phase, runs), phase.seconds);
  }
  row("whole epoch", &events::Timing::wall_s);
  return table;
}

std::string curves_text(const RunComparison& compared, const Style& style) {
  std::string text;
  std::vector<std::string> names;
  for (const RunFiles* run : runs_of(compared)) {
    for (const std::string& name : metric_names(run->epochs)) add_new(names, name);
  }
  int widest = 0;
  for (const Group& group : compared.groups)
    widest = std::max(widest, display_width(printable(group.label)));
  for (const std::string& name : names) {
    std::vector<std::vector<double>> curves;
    std::vector<double> all;
    for (const Group& group : compared.groups) {
      curves.push_back(mean_curve(group, name));
      all.insert(all.end(), curves.back().begin(), curves.back().end());
    }
    const Interval range = extent_of(all);
    if (range.low > range.high) continue;
    text += paint(printable(name), Ink::cyan, style) + "\n";
    for (std::size_t i = 0; i < curves.size(); ++i) {
      if (curves[i].empty()) continue;
      text += fmt::format("  {}  {}  {} -> {}\n",
                          pad(printable(compared.groups[i].label), widest, Align::left),
                          sparkline(curves[i], style.glyphs, {.scale = range, .gap = ' '}),
                          metric_text(curves[i].front()), metric_text(curves[i].back()));
    }
  }
  return text;
}

Json difference_json(const std::optional<MeanDifference>& difference, const std::string& label) {
  if (!difference) return {{"group", label}, {"value", nullptr}};
  const double base = difference->base;
  return {{"group", label},
          {"value", json_number(difference->difference)},
          {"relative",
           base == 0 ? Json(nullptr) : json_number(difference->difference / std::abs(base))},
          {"ci95", json_value(difference->ci95)},
          {"paired", difference->paired}};
}

Json measures_json(const RunComparison& compared) {
  Json list = Json::array();
  for (const std::string& name : measure_names(compared)) {
    Json differences = Json::array();
    const auto found = differences_of(compared, name);
    for (std::size_t i = 0; i < found.size(); ++i)
      differences.push_back(difference_json(found[i], compared.groups[i + 1].label));
    list.push_back({{"name", name},
                    {"values", json_value(values_of(compared, name))},
                    {"differences", differences}});
  }
  return list;
}

Json losses_json(const std::optional<LossComparison>& losses) {
  if (!losses) return nullptr;
  const auto hex = [](const std::optional<double>& value) {
    return value ? Json(fmt::format("{:a}", *value)) : Json(nullptr);
  };
  Json first = nullptr;
  if (const auto& difference = losses->difference)
    first = {{"run", difference->run},
             {"metric", difference->metric},
             {"of", difference->of_epoch ? "epoch" : "step"},
             {"epoch", difference->epoch},
             {"step", difference->step},
             {"expected", hex(difference->wanted)},
             {"found", hex(difference->found)},
             {"hint", difference->hint}};
  return {{"equal", !losses->difference}, {"losses", losses->losses}, {"first_difference", first}};
}

}  // namespace

std::string compare_text(const RunComparison& compared, const Style& style) {
  std::string text;
  const bool runs = compared.kind == "runs";
  const Table config = config_table(compared);
  if (runs && config.rows().empty()) text += "The configs are the same.\n";
  if (!config.rows().empty()) text += to_text(config, style);
  text += (text.empty() ? "" : "\n") + to_text(measures_table(compared), style);
  if (!runs) return text;
  text += "\n" + to_text(time_table(compared), style);
  const std::string curves = curves_text(compared, style);
  return curves.empty() ? text : text + "\n" + curves;
}

Json compare_document(const RunComparison& compared, const std::optional<LossComparison>& losses) {
  const auto run_json = [](const RunFiles& run) -> Json {
    return {{"folder", run.folder.string()},
            {"name", run.name},
            {"seed", run.value("seed").value_or("")},
            {"verdict", text_at(run.result, "verdict")},
            {"notes", run.notes}};
  };
  const auto group_json = [&](const Group& group) -> Json {
    return {{"label", group.label},
            {"members", group.members.size()},
            {"runs", json_list(group.runs, run_json)}};
  };
  return {{"schema", "trainctl.compare/2"},
          {"kind", compared.kind},
          {"groups", json_list(compared.groups, group_json)},
          {"config", json_list(config_differences(compared), JSON_OF(key, values))},
          {"metrics", measures_json(compared)},
          {"equal_losses", losses_json(losses)},
          {"warnings", machine_warnings(compared)}};
}

}  // namespace trainctl::report
