#include "study/sweep/ledger_database.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cmath>

namespace trainctl::study {
namespace {

constexpr int kVersion = 1;
constexpr int kBusyMs = 5000;  // somebody may be looking at it with another program
constexpr const char* kSchema = R"(
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (
  number INTEGER PRIMARY KEY,
  config TEXT NOT NULL,
  seed TEXT NOT NULL,
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
  UNIQUE (config, seed));
CREATE TABLE rungs (
  run INTEGER NOT NULL REFERENCES runs (number),
  rung INTEGER NOT NULL,
  value REAL,
  PRIMARY KEY (run, rung));
)";

/// Of one handle, with its words for the last failure.
[[noreturn]] void fail(sqlite3* handle, const fs::path& file, int code) {
  const int primary = code & 0xFF;
  const char* hint = "; check the disk, and that the folder can be written";
  if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT)
    hint = "; it is no ledger of a sweep, or damaged: choose another --out";
  if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED)
    hint = "; another program holds it: close that";
  throw Error(ErrorKind::resource,
              fmt::format("the ledger {}: {}{}", printable(file.string()),
                          handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code), hint));
}

}  // namespace

LedgerStatement::LedgerStatement(sqlite3* handle, const fs::path& file, const char* text)
    : handle_(handle), file_(file) {
  check(sqlite3_prepare_v2(handle, text, -1, &statement_, nullptr));
}

LedgerStatement::~LedgerStatement() { sqlite3_finalize(statement_); }

LedgerStatement& LedgerStatement::bind(std::int64_t value) {
  check(sqlite3_bind_int64(statement_, ++bound_, value));
  return *this;
}

LedgerStatement& LedgerStatement::bind(const std::optional<double>& value) {
  ++bound_;
  check(value && std::isfinite(*value) ? sqlite3_bind_double(statement_, bound_, *value)
                                       : sqlite3_bind_null(statement_, bound_));
  return *this;
}

LedgerStatement& LedgerStatement::bind(const std::string& text) {
  const auto length = static_cast<sqlite3_uint64>(text.size());
  check(sqlite3_bind_text64(statement_, ++bound_, text.data(), length, nullptr, SQLITE_UTF8));
  return *this;
}

bool LedgerStatement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) fail(handle_, file_, code);
  return false;
}

int LedgerStatement::run() {
  while (step()) {
  }
  return sqlite3_changes(handle_);
}

bool LedgerStatement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::int64_t LedgerStatement::number(int column) const {
  return sqlite3_column_int64(statement_, column);
}

int LedgerStatement::integer(int column) const { return sqlite3_column_int(statement_, column); }

double LedgerStatement::real(int column) const { return sqlite3_column_double(statement_, column); }

std::optional<double> LedgerStatement::real_or_none(int column) const {
  return is_null(column) ? std::nullopt : std::optional(real(column));
}

std::string LedgerStatement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const int length = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(length));
}

void LedgerStatement::check(int code) const {
  if (code != SQLITE_OK) fail(handle_, file_, code);
}

LedgerDatabase::~LedgerDatabase() { sqlite3_close(handle); }

void LedgerDatabase::execute(const char* text) const {
  const int code = sqlite3_exec(handle, text, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(handle, file, code);
}

void LedgerDatabase::open() {
  const int code =
      sqlite3_open_v2(file.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  if (code != SQLITE_OK) fail(handle, file, code);
  sqlite3_busy_timeout(handle, kBusyMs);
  // FULL: what is committed is on the disk, and not only in the page cache.
  // EXCLUSIVE: the log needs no memory that processes share, which network file systems lack.
  execute(
      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; "
      "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;");
  atomically([&] {
    int version = 0;
    {
      LedgerStatement asked = prepare("PRAGMA user_version");
      if (asked.step()) version = asked.integer(0);
    }
    ENSURE(resource, version == 0 || version == kVersion,
           "the ledger {} has version {}, and this trainctl knows {}: use the trainctl that made "
           "it, or another --out",
           printable(file.string()), version, kVersion);
    if (version == 0) execute((std::string(kSchema) + "PRAGMA user_version = 1;").c_str());
  });
}

void LedgerDatabase::atomically(const std::function<void()>& body) const {
  execute("BEGIN IMMEDIATE");
  try {
    body();
    execute("COMMIT");
  } catch (...) {
    sqlite3_exec(handle, "ROLLBACK", nullptr, nullptr, nullptr);  // the first failure is told
    throw;
  }
}

void LedgerDatabase::change_one(LedgerStatement& statement, std::int64_t number,
                                const char* to) const {
  ENSURE(resource, statement.run() == 1,
         "run {:04} of the ledger {} cannot become {}: another sweep is at it", number,
         printable(file.string()), to);
}

Json LedgerDatabase::meta(const char* key) const {
  const std::string name = key;
  LedgerStatement row = prepare("SELECT value FROM meta WHERE key = ?");
  row.bind(name);
  return row.step() ? Json::parse(row.text(0)) : Json(nullptr);
}

void LedgerDatabase::set_meta(const char* key, const Json& value) const {
  const std::string name = key;
  const std::string text = to_line(value);
  prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)").bind(name).bind(text).run();
}

std::string sqlite_version() { return sqlite3_libversion(); }

}  // namespace trainctl::study
