#include "study/sweep/ledger.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "study/sweep/ledger_database.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::study {
namespace {

// How runs are written into the tables of a ledger, and read back.

std::string text_of(const report::Overrides& overrides);
/// Those that are numbers.
std::string text_of(const std::vector<std::pair<std::string, double>>& metrics);

inline constexpr const char* kDefinedRuns = "WHERE position IS NOT NULL ORDER BY position";
inline constexpr const char* kAllRuns = "ORDER BY number";
/// Of the table of runs, those that the end of the statement asks for, in its order.
std::vector<LedgerRun> runs_in(const LedgerDatabase& database, const char* which);

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

}  // namespace

using report::SweepStatus;

Ledger::Ledger(const fs::path& file) : database_(std::make_unique<LedgerDatabase>(file)) {
  database_->open();
}
Ledger::~Ledger() = default;
Ledger::Ledger(Ledger&&) noexcept = default;

Json Ledger::definition() const { return database_->meta("definition"); }

Json Ledger::ranking() const { return database_->meta("ranking"); }

void Ledger::rank(const Json& ranking, const Values& values) {
  database_->atomically([&] {
    database_->set_meta("ranking", ranking);
    for (const auto& [number, value] : values)
      database_->prepare("UPDATE runs SET value = ? WHERE number = ?")
          .bind(value)
          .bind(number)
          .run();
  });
}

std::size_t Ledger::define(const Json& definition, std::span<const PlannedRun> runs) {
  std::size_t added = 0;
  database_->atomically([&] {
    database_->set_meta("definition", definition);
    database_->execute("UPDATE runs SET position = NULL");
    std::int64_t position = 0;
    for (const PlannedRun& run : runs) {
      const std::string seed = std::to_string(run.seed);
      const std::string overrides = text_of(run.overrides);
      const int is_new = database_
                             ->prepare(
                                 "INSERT INTO runs (config, seed, overrides) VALUES (?, ?, ?) "
                                 "ON CONFLICT (config, seed) DO NOTHING")
                             .bind(run.config)
                             .bind(seed)
                             .bind(overrides)
                             .run();
      added += is_new > 0 ? 1 : 0;
      database_
          ->prepare("UPDATE runs SET position = ?, overrides = ? WHERE config = ? AND seed = ?")
          .bind(position++)
          .bind(overrides)
          .bind(run.config)
          .bind(seed)
          .run();
    }
  });
  return added;
}

std::vector<LedgerRun> Ledger::runs() const { return runs_in(*database_, kDefinedRuns); }

std::vector<LedgerRun> Ledger::all_runs() const { return runs_in(*database_, kAllRuns); }

void Ledger::aim(std::span<const std::int64_t> numbers, int target) {
  database_->atomically([&] {
    for (const std::int64_t number : numbers)
      database_->prepare("UPDATE runs SET target = ? WHERE number = ? AND target < ?")
          .bind(target)
          .bind(number)
          .bind(target)
          .run();
  });
}

void Ledger::claim(std::int64_t number, const std::string& holder,
                   const std::string& result_before) {
  LedgerStatement claim = database_->prepare(
      "UPDATE runs SET status = 'running', holder = ?, result_before = ? "
      "WHERE number = ? AND status = 'pending' AND target > rung");
  claim.bind(holder).bind(result_before).bind(number);
  database_->change_one(claim, number, "running");
}

void Ledger::end(std::int64_t number, const RunEnd& end, bool is_complete) {
  const bool failed = end.exit_code != 0;
  const std::string status = name_of(failed        ? SweepStatus::failed
                                     : is_complete ? SweepStatus::ok
                                                   : SweepStatus::pending);
  const std::string metrics = text_of(end.metrics);
  database_->atomically([&] {
    if (!failed)
      database_
          ->prepare(
              "INSERT OR REPLACE INTO rungs (run, rung, value) "
              "SELECT number, target, ? FROM runs WHERE number = ?")
          .bind(end.value)
          .bind(number)
          .run();
    LedgerStatement ended = database_->prepare(
        failed ? "UPDATE runs SET status = ?, exit_code = ?, message = ?, epochs = ?, "
                 "wall_s = wall_s + ?, value = ?, metrics = ?, holder = '' "
                 "WHERE number = ? AND status = 'running'"
               : "UPDATE runs SET status = ?, exit_code = ?, message = ?, epochs = ?, "
                 "wall_s = wall_s + ?, value = ?, metrics = ?, holder = '', rung = target "
                 "WHERE number = ? AND status = 'running'");
    ended.bind(status).bind(end.exit_code).bind(end.message).bind(end.epochs);
    ended.bind(std::optional(end.wall_s)).bind(end.value).bind(metrics).bind(number);
    database_->change_one(ended, number, status.c_str());
  });
}

void Ledger::put_back(std::int64_t number, Because because) {
  LedgerStatement back = database_->prepare(
      "UPDATE runs SET status = 'pending', holder = '', retries = retries + ? "
      "WHERE number = ? AND status = 'running'");
  back.bind(because == Because::lacked_resources ? 1 : 0).bind(number);
  database_->change_one(back, number, "pending");
}

void Ledger::prune(std::span<const std::int64_t> numbers) {
  database_->atomically([&] {
    for (const std::int64_t number : numbers) {
      LedgerStatement pruned = database_->prepare(
          "UPDATE runs SET status = 'pruned' WHERE number = ? AND status = 'pending'");
      pruned.bind(number);
      database_->change_one(pruned, number, "pruned");
    }
  });
}

void Ledger::reopen(std::span<const std::int64_t> numbers) {
  database_->atomically([&] {
    for (const std::int64_t number : numbers) {
      LedgerStatement opened = database_->prepare(
          "UPDATE runs SET status = 'pending', retries = 0 "
          "WHERE number = ? AND status IN ('failed', 'pruned')");
      opened.bind(number);
      database_->change_one(opened, number, "pending");
    }
  });
}

}  // namespace trainctl::study
