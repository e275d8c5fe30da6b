#include "study/sweep/ledger.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <sqlite3.h>

#include <cmath>

namespace trainctl::study {
namespace {

constexpr int kVersion = 2;
constexpr int kBusyMs = 5000;  // another program may be reading the file
constexpr const char* kTables = R"(
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (
  number INTEGER PRIMARY KEY,
  config TEXT NOT NULL,
  seed TEXT NOT NULL,
  fold INTEGER NOT NULL,
  position INTEGER,
  overrides TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending'
    CHECK (status IN ('pending', 'running', 'ok', 'failed', 'pruned')),
  target INTEGER NOT NULL DEFAULT -1,
  rung INTEGER NOT NULL DEFAULT -1,
  retries INTEGER NOT NULL DEFAULT 0,
  holder TEXT NOT NULL DEFAULT '',
  result_before TEXT NOT NULL DEFAULT '',
  exit_code INTEGER,
  message TEXT NOT NULL DEFAULT '',
  epochs INTEGER NOT NULL DEFAULT 0,
  wall_s REAL NOT NULL DEFAULT 0,
  value REAL,
  metrics TEXT NOT NULL DEFAULT '{}',
  UNIQUE (config, seed, fold));
CREATE TABLE rungs (
  run INTEGER NOT NULL REFERENCES runs (number),
  rung INTEGER NOT NULL,
  value REAL,
  PRIMARY KEY (run, rung));
)";

/// Throws Error(resource) with SQLite's text for the last failure of the handle.
[[noreturn]] void fail(sqlite3* handle, const fs::path& file, int code) {
  const int primary = code & 0xFF;
  const char* hint = "check the disk and the permissions of the folder";
  if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT)
    hint = "choose another --out, because this file is damaged or is not the database of a sweep";
  if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED)
    hint = "close the program that has it open";
  THROW(resource, "cannot use the sweep database {}: {}\nhint: {}", printable(file.string()),
        handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code), hint);
}

/// One prepared statement. Its methods throw Error(resource) when the file cannot be read or
/// written.
class Statement {
 public:
  /// Binds the values to the parameters in their order. Texts must outlive the statement.
  template <class... Values>
  Statement(sqlite3* handle, const fs::path& file, const char* text, const Values&... values)
      : Statement(handle, file, text) {  // a failure after this point runs the destructor
    (bind(values), ...);
  }
  Statement(sqlite3* handle, const fs::path& file, const char* text)
      : handle_(handle), file_(file) {
    check(sqlite3_prepare_v2(handle, text, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Returns false if there is no further row.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) fail(handle_, file_, code);
    return false;
  }

  [[nodiscard]] bool is_null(int column) const {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
  }
  [[nodiscard]] std::int64_t number(int column) const {
    return sqlite3_column_int64(statement_, column);
  }
  [[nodiscard]] int integer(int column) const { return sqlite3_column_int(statement_, column); }
  [[nodiscard]] double real(int column) const { return sqlite3_column_double(statement_, column); }
  [[nodiscard]] std::optional<double> real_or_none(int column) const {
    return is_null(column) ? std::nullopt : std::optional(real(column));
  }
  [[nodiscard]] std::string text(int column) const {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    const int length = sqlite3_column_bytes(statement_, column);
    return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(length));
  }

 private:
  void bind(std::int64_t value) { check(sqlite3_bind_int64(statement_, ++bound_, value)); }
  void bind(int value) { bind(std::int64_t{value}); }
  void bind(const std::optional<double>& value) {
    ++bound_;
    check(value && std::isfinite(*value) ? sqlite3_bind_double(statement_, bound_, *value)
                                         : sqlite3_bind_null(statement_, bound_));
  }
  void bind(std::string_view text) {
    check(
        sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), nullptr, SQLITE_UTF8));
  }
  void check(int code) const {
    if (code != SQLITE_OK) fail(handle_, file_, code);
  }

  sqlite3* handle_;
  const fs::path& file_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

}  // namespace

/// The SQLite file of a ledger. This is the only class that opens a file with SQLite.
class LedgerDatabase {
 public:
  /// Locks out other processes, and creates missing tables.
  explicit LedgerDatabase(const fs::path& path) : file_(path) {
    const int code = sqlite3_open_v2(file_.c_str(), &handle_,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    try {
      if (code != SQLITE_OK) fail(handle_, file_, code);
      make_tables();
    } catch (...) {
      sqlite3_close(handle_);
      throw;
    }
  }
  ~LedgerDatabase() { sqlite3_close(handle_); }
  LedgerDatabase(const LedgerDatabase&) = delete;
  LedgerDatabase& operator=(const LedgerDatabase&) = delete;

  template <class... Values>
  [[nodiscard]] Statement prepare(const char* text, const Values&... values) const {
    return Statement(handle_, file_, text, values...);
  }
  /// Runs a statement. Returns how many rows it changed.
  template <class... Values>
  int run(const char* text, const Values&... values) const {
    Statement statement = prepare(text, values...);
    while (statement.step()) {
    }
    return sqlite3_changes(handle_);
  }
  /// Changes the state of one run. Throws when the run is not in the state that the statement
  /// requires.
  template <class... Values>
  void change_one(std::int64_t number, const char* to, const char* text,
                  const Values&... values) const {
    ENSURE(
        resource, run(text, values...) == 1,
        "cannot mark run {:04} in the sweep database {} as {}: another sweep has changed the run",
        number, printable(file_.string()), to);
  }
  /// Runs `body` in one transaction.
  template <class Body>
  void atomically(const Body& body) const {
    execute("BEGIN IMMEDIATE");
    try {
      body();
      execute("COMMIT");
    } catch (...) {
      sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);  // can fail
      throw;
    }
  }
  [[nodiscard]] const fs::path& file() const { return file_; }
  [[nodiscard]] Json meta(std::string_view key) const {
    Statement row = prepare("SELECT value FROM meta WHERE key = ?", key);
    return row.step() ? Json::parse(row.text(0)) : Json(nullptr);
  }
  void set_meta(std::string_view key, const Json& value) const {
    run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key, to_line(value));
  }

 private:
  void execute(const char* text) const {
    const int code = sqlite3_exec(handle_, text, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) fail(handle_, file_, code);
  }

  void make_tables() const {
    sqlite3_busy_timeout(handle_, kBusyMs);
    // FULL: committed data is on disk, not only in the page cache. EXCLUSIVE: the write-ahead log
    // needs no shared memory, which network file systems do not support.
    execute(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; "
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;");
    atomically([&] {
      int version = 0;
      if (Statement asked = prepare("PRAGMA user_version"); asked.step())
        version = asked.integer(0);
      ENSURE(resource, version == 0 || version == kVersion,
             "the sweep database {} has version {}, but this trainctl supports version {}\nhint: "
             "use the trainctl that wrote it, or choose another --out",
             printable(file_.string()), version, kVersion);
      if (version == 0)
        execute(fmt::format("{}PRAGMA user_version = {};", kTables, kVersion).c_str());
    });
  }

  fs::path file_;
  sqlite3* handle_ = nullptr;
};

std::string sqlite_version() { return sqlite3_libversion(); }

namespace {

/// Returns the status of a run in the file.
report::SweepStatus status_called(const std::string& name, std::int64_t run, const fs::path& file) {
  const auto found = enum_called<report::SweepStatus>(name);
  ENSURE(resource, found.has_value(),
         "run {:04} in the sweep database {} has the unknown status '{}'\nhint: use the trainctl "
         "that wrote it, or choose another --out",
         run, printable(file.string()), printable(name));
  return *found;
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
    "exit_code, message, epochs, wall_s, value, metrics, fold FROM runs ";
constexpr int kNoFold = -1;  // not NULL, because two NULLs are different in UNIQUE

LedgerRun run_in(const Statement& row, const fs::path& file) {
  LedgerRun run;
  run.number = row.number(0);
  run.plan = {row.text(1), std::stoull(row.text(2)), overrides_in(row.text(3)), {}};
  run.status = status_called(row.text(4), run.number, file);
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
  if (row.integer(16) != kNoFold) run.plan.fold = row.integer(16);
  return run;
}

std::string text_of(const report::Overrides& overrides) {
  Json list = Json::array();
  for (const auto& [key, value] : overrides) list.push_back(Json::array({key, value}));
  return to_line(list);
}

/// Leaves out the metrics that are not finite.
std::string text_of(const std::vector<std::pair<std::string, double>>& metrics) {
  Json object = Json::object();
  for (const auto& [name, value] : metrics) {
    if (std::isfinite(value)) object[name] = value;
  }
  return to_line(object);
}

/// Returns the runs that the SELECT clause `which` selects, in its order.
std::vector<LedgerRun> runs_in(const LedgerDatabase& database, const char* which) {
  std::map<std::int64_t, std::vector<std::optional<double>>> values;
  Statement rungs = database.prepare("SELECT run, value FROM rungs ORDER BY run, rung");
  while (rungs.step()) values[rungs.number(0)].push_back(rungs.real_or_none(1));
  std::vector<LedgerRun> all;
  Statement row = database.prepare((std::string(kSelect) + which).c_str());
  while (row.step()) {
    all.push_back(run_in(row, database.file()));
    all.back().rung_values = values[all.back().number];
  }
  return all;
}

}  // namespace

using report::SweepStatus;

Ledger::Ledger(const fs::path& file) : database_(std::make_unique<LedgerDatabase>(file)) {}
Ledger::~Ledger() = default;
Ledger::Ledger(Ledger&&) noexcept = default;

Json Ledger::definition() const { return database_->meta("definition"); }

Json Ledger::ranking() const { return database_->meta("ranking"); }

void Ledger::rank(const Json& ranking, const Values& values) {
  database_->atomically([&] {
    database_->set_meta("ranking", ranking);
    for (const auto& [number, value] : values)
      database_->run("UPDATE runs SET value = ? WHERE number = ?", value, number);
  });
}

std::size_t Ledger::define(const Json& definition, std::span<const PlannedRun> runs) {
  std::size_t added = 0;
  database_->atomically([&] {
    database_->set_meta("definition", definition);
    database_->run("UPDATE runs SET position = NULL");
    std::int64_t position = 0;
    for (const PlannedRun& run : runs) {
      const std::string seed = std::to_string(run.seed);
      const int fold = run.fold.value_or(kNoFold);
      const std::string overrides = text_of(run.overrides);
      const int is_new = database_->run(
          "INSERT INTO runs (config, seed, fold, overrides) VALUES (?, ?, ?, ?) "
          "ON CONFLICT (config, seed, fold) DO NOTHING",
          run.config, seed, fold, overrides);
      added += is_new > 0 ? 1 : 0;
      database_->run(
          "UPDATE runs SET position = ?, overrides = ? WHERE config = ? AND seed = ? AND fold = ?",
          position++, overrides, run.config, seed, fold);
    }
  });
  return added;
}

std::vector<LedgerRun> Ledger::runs() const {
  return runs_in(*database_, "WHERE position IS NOT NULL ORDER BY position");
}

std::vector<LedgerRun> Ledger::all_runs() const { return runs_in(*database_, "ORDER BY number"); }

void Ledger::set_target(std::span<const std::int64_t> numbers, int target) {
  database_->atomically([&] {
    for (const std::int64_t number : numbers)
      database_->run("UPDATE runs SET target = ? WHERE number = ? AND target < ?", target, number,
                     target);
  });
}

void Ledger::claim(std::int64_t number, const std::string& holder,
                   const std::string& result_before) {
  database_->change_one(number, "running",
                        "UPDATE runs SET status = 'running', holder = ?, result_before = ? "
                        "WHERE number = ? AND status = 'pending' AND target > rung",
                        holder, result_before, number);
}

void Ledger::end(std::int64_t number, const RunEnd& end, bool is_complete) {
  const bool failed = end.exit_code != 0;
  const std::string status = enum_name(failed        ? SweepStatus::failed
                                       : is_complete ? SweepStatus::ok
                                                     : SweepStatus::pending);
  const std::string update = fmt::format(
      "UPDATE runs SET status = ?, exit_code = ?, message = ?, epochs = ?, wall_s = wall_s + ?, "
      "value = ?, metrics = ?, holder = ''{} WHERE number = ? AND status = 'running'",
      failed ? "" : ", rung = target");
  database_->atomically([&] {
    if (!failed)
      database_->run(
          "INSERT OR REPLACE INTO rungs (run, rung, value) "
          "SELECT number, target, ? FROM runs WHERE number = ?",
          end.value, number);
    database_->change_one(number, status.c_str(), update.c_str(), status, end.exit_code,
                          end.message, end.epochs, std::optional(end.wall_s), end.value,
                          text_of(end.metrics), number);
  });
}

void Ledger::put_back(std::int64_t number, Reason reason) {
  database_->change_one(number, "pending",
                        "UPDATE runs SET status = 'pending', holder = '', retries = retries + ? "
                        "WHERE number = ? AND status = 'running'",
                        reason == Reason::lacked_resources ? 1 : 0, number);
}

void Ledger::prune(std::span<const std::int64_t> numbers) {
  database_->atomically([&] {
    for (const std::int64_t number : numbers)
      database_->change_one(
          number, "pruned",
          "UPDATE runs SET status = 'pruned' WHERE number = ? AND status = 'pending'", number);
  });
}

void Ledger::reopen(std::span<const std::int64_t> numbers) {
  database_->atomically([&] {
    for (const std::int64_t number : numbers)
      database_->change_one(number, "pending",
                            "UPDATE runs SET status = 'pending', retries = 0 "
                            "WHERE number = ? AND status IN ('failed', 'pruned')",
                            number);
  });
}

}  // namespace trainctl::study
