#include "report/html/sweep_summary.hpp"

#include "report/html/page.hpp"
#include "report/record/run_files.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace trainctl::report {
namespace {

std::string interval_text(const Json& value) {
  const Json& ci = member(value, "ci95");
  if (!ci.is_array() || ci.size() != 2 || !ci[0].is_number() || !ci[1].is_number()) return "-";
  return fmt::format("[{}, {}]", metric_text(ci[0].get<double>()),
                     metric_text(ci[1].get<double>()));
}

std::string mean_text(const Json& value) {
  const double mean = number_at(value, "mean");
  return std::isnan(mean) ? "-" : metric_text(mean);
}

std::string difference_text(const Json& row) {
  if (const Json& is_reference = member(row, "reference"); is_reference == Json(true))
    return "reference";
  const Json& difference = member(row, "difference");
  const double mean = number_at(difference, "mean");
  if (std::isnan(mean)) return "-";
  const std::string text = (mean < 0 ? "" : "+") + metric_text(mean);
  const std::string interval = interval_text(difference);
  if (interval == "-") return text;
  return text + " " + interval + (member(row, "tied") == Json(true) ? ", tied" : "");
}

std::string runs_text(const Json& row) {
  std::string text;
  const Json& runs = member(row, "runs");
  for (std::size_t i = 0; runs.is_array() && i < runs.size(); ++i)
    text +=
        (i == 0 ? "" : " ") + (runs[i].is_string() ? runs[i].get<std::string>() : to_line(runs[i]));
  return text;
}

}  // namespace

ToldOverrides overrides_of(const Json& run) {
  ToldOverrides found;
  const Json& told = member(run, "overrides");
  if (told.is_object()) {
    for (const auto& [key, value] : told.items())
      found.emplace_back(key, value.is_string() ? value.get<std::string>() : to_line(value));
  } else if (told.is_array()) {
    for (const Json& one : told) {
      const std::string text = one.is_string() ? one.get<std::string>() : to_line(one);
      const std::size_t sign = std::min(text.find('='), text.size());
      found.emplace_back(text.substr(0, sign), text.substr(std::min(sign + 1, text.size())));
    }
  }
  return found;
}

std::set<std::string> varied_keys(const Json& rows) {
  std::map<std::string, std::pair<std::string, std::size_t>> first;  // value, rows that have it
  std::set<std::string> all;
  for (const Json& row : rows) {
    for (const auto& [key, value] : overrides_of(row)) {
      auto& told = first.try_emplace(key, value, 0).first->second;
      if (told.first == value) ++told.second;
      all.insert(key);
    }
  }
  std::set<std::string> varied;
  for (const auto& [key, told] : first) {
    if (told.second != rows.size()) varied.insert(key);
  }
  return varied.empty() ? all : varied;
}

std::string setting_text(const Json& row, const std::set<std::string>& keys) {
  std::string text;
  for (const auto& [key, value] : overrides_of(row)) {
    if (keys.contains(key)) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value);
  }
  return text;
}

Html sweep_summary(const Json& sweep, const std::string& metric) {
  const Json& rows = member(sweep, "summary");
  if (!rows.is_array() || rows.empty()) return {};
  Table table({{"rank"},
               {"settings", Align::left},
               {"mean " + metric},
               {"95 %"},
               {"difference"},
               {"runs", Align::left},
               {"status", Align::left}});
  const std::set<std::string> keys = varied_keys(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    const Json& value = member(row, "value");
    table.add({std::to_string(i + 1), setting_text(row, keys), mean_text(value),
               interval_text(value), difference_text(row), runs_text(row), text_at(row, "status")});
  }
  return html_table(table);
}

}  // namespace trainctl::report
