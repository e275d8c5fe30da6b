#include "report/html/swept_results.hpp"

#include "report/html/sweep_summary.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl::report {

std::string run_id_of(const Json& run) {
  const Json& id = member(run, "id");
  return id.is_string() ? id.get<std::string>() : to_line(id);
}

std::string override_of(const Json& run, const std::string& key) {
  for (const auto& [name, value] : overrides_of(run)) {
    if (name == key) return value;
  }
  return "";
}

std::vector<std::string> keys_of(const Json& runs) {
  std::vector<std::string> keys;
  for (const Json& run : runs) {
    for (const auto& [key, value] : overrides_of(run)) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

double result_of(const Json& run, const Objective& objective) {
  if (run.is_object() && run.contains("value")) return number_at(run, "value");
  return number_at(member(run, "metrics"), objective.metric);
}

std::vector<double> shades_of(const Json& runs, const Objective& objective) {
  std::vector<double> sorted;
  for (const Json& run : runs) {
    if (std::isfinite(result_of(run, objective))) sorted.push_back(result_of(run, objective));
  }
  std::ranges::sort(sorted);
  if (!objective.lowest) std::ranges::reverse(sorted);
  std::vector<double> shades;
  for (const Json& run : runs) {
    const auto place = std::ranges::find(sorted, result_of(run, objective)) - sorted.begin();
    const auto last = static_cast<double>(std::max<std::size_t>(sorted.size(), 2) - 1);
    shades.push_back(std::isfinite(result_of(run, objective)) ? static_cast<double>(place) / last
                                                              : 1);
  }
  return shades;
}

Objective objective_of(const Json& sweep) {
  Objective objective;
  for (const char* key : {"objective", "metric", "monitor"}) {
    const Json& told = member(sweep, key);
    if (told.is_object()) objective.metric = text_at(told, "metric");
    if (told.is_string()) objective.metric = told.get<std::string>();
    const std::string mode = text_at(told.is_object() ? told : sweep, "mode");
    if (!objective.metric.empty() && !mode.empty()) return {objective.metric, mode != "max"};
    if (!objective.metric.empty()) break;
  }
  const Json& runs = member(sweep, "runs");
  for (std::size_t i = 0; objective.metric.empty() && runs.is_array() && i < runs.size(); ++i) {
    const Json& metrics = member(runs[i], "metrics");
    if (!metrics.is_object() || metrics.empty()) continue;
    objective.metric = metrics.contains("val/loss") ? "val/loss" : metrics.begin().key();
  }
  const std::string& name = objective.metric;
  objective.lowest = name.find("loss") != std::string::npos ||
                     name.find("error") != std::string::npos ||
                     name.find("perplexity") != std::string::npos;
  return objective;
}

}  // namespace trainctl::report
