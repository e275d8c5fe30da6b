#include "study/sweep/ledger_rows.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

namespace trainctl::study {
namespace {

report::SweepStatus status_called(const std::string& name) {
  const auto names = enum_names(report::SweepStatus());
  const auto* found = std::ranges::find(names, name);
  ENSURE(resource, found != names.end(), "the ledger has a run of status '{}'", printable(name));
  return static_cast<report::SweepStatus>(found - names.begin());
}

report::Overrides overrides_in(const std::string& text) {
  report::Overrides overrides;
  for (const Json& pair : Json::parse(text))
    overrides.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
  return overrides;
}

std::vector<std::pair<std::string, double>> metrics_in(const std::string& text) {
  std::vector<std::pair<std::string, double>> metrics;
  const Json object = Json::parse(text);
  for (const auto& [name, value] : object.items()) metrics.emplace_back(name, value.get<double>());
  return metrics;
}

constexpr const char* kSelect =
    "SELECT number, config, seed, overrides, status, target, rung, retries, holder, result_before, "
    "exit_code, message, epochs, wall_s, value, metrics FROM runs ";

LedgerRun run_in(const LedgerStatement& row) {
  LedgerRun run;
  run.number = row.number(0);
  run.plan = {row.text(1), std::stoull(row.text(2)), overrides_in(row.text(3))};
  run.status = status_called(row.text(4));
  run.target = row.integer(5);
  run.rung = row.integer(6);
  run.retries = row.integer(7);
  run.holder = row.text(8);
  run.result_before = row.text(9);
  if (!row.is_null(10)) run.exit_code = row.integer(10);
  run.message = row.text(11);
  run.epochs = row.number(12);
  run.wall_s = row.real(13);
  run.value = row.real_or_none(14);
  run.metrics = metrics_in(row.text(15));
  return run;
}

}  // namespace

std::string text_of(const report::Overrides& overrides) {
  Json list = Json::array();
  for (const auto& [key, value] : overrides) list.push_back(Json::array({key, value}));
  return to_line(list);
}

std::string text_of(const std::vector<std::pair<std::string, double>>& metrics) {
  Json object = Json::object();
  for (const auto& [name, value] : metrics) {
    if (std::isfinite(value)) object[name] = value;
  }
  return to_line(object);
}

std::vector<LedgerRun> runs_in(const LedgerDatabase& database, const char* which) {
  std::map<std::int64_t, std::vector<std::optional<double>>> values;
  LedgerStatement rungs = database.prepare("SELECT run, value FROM rungs ORDER BY run, rung");
  while (rungs.step()) values[rungs.number(0)].push_back(rungs.real_or_none(1));
  std::vector<LedgerRun> all;
  LedgerStatement row = database.prepare((std::string(kSelect) + which).c_str());
  while (row.step()) {
    all.push_back(run_in(row));
    all.back().rung_values = values[all.back().number];
  }
  return all;
}

}  // namespace trainctl::study
