#include "study/sweep/ledger.hpp"

#include "study/sweep/ledger_database.hpp"
#include "study/sweep/ledger_rows.hpp"

namespace trainctl::study {

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
