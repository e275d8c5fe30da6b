#pragma once

#include "base/files.hpp"
#include "base/json.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace trainctl::study {

/// One prepared statement, whose parameters are bound in their order. All of it throws
/// Error(resource) where the file cannot be read or written.
class LedgerStatement {
 public:
  LedgerStatement(sqlite3* handle, const fs::path& file, const char* text);
  ~LedgerStatement();
  LedgerStatement(const LedgerStatement&) = delete;
  LedgerStatement& operator=(const LedgerStatement&) = delete;

  LedgerStatement& bind(std::int64_t value);
  LedgerStatement& bind(int value) { return bind(std::int64_t{value}); }
  LedgerStatement& bind(const std::optional<double>& value);
  /// The text has to live until the statement has run.
  LedgerStatement& bind(const std::string& text);
  LedgerStatement& bind(std::string&& text) = delete;

  /// False where there is no further row.
  bool step();
  /// Runs it; returns how many rows it changed.
  int run();

  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t number(int column) const;
  [[nodiscard]] int integer(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::optional<double> real_or_none(int column) const;
  [[nodiscard]] std::string text(int column) const;

 private:
  void check(int code) const;

  sqlite3* handle_;
  const fs::path& file_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

/// The file of a ledger: the only place that opens a file with SQLite.
struct LedgerDatabase {
  explicit LedgerDatabase(const fs::path& path) : file(path) {}
  ~LedgerDatabase();
  LedgerDatabase(const LedgerDatabase&) = delete;
  LedgerDatabase& operator=(const LedgerDatabase&) = delete;

  [[nodiscard]] LedgerStatement prepare(const char* text) const { return {handle, file, text}; }
  void execute(const char* text) const;
  /// Keeps all others out, and makes the tables where there are none.
  void open();
  /// All of it or nothing.
  void atomically(const std::function<void()>& body) const;
  [[nodiscard]] Json meta(const char* key) const;
  void set_meta(const char* key, const Json& value) const;
  /// Of one run, which has to be in the state that the statement asks for.
  void change_one(LedgerStatement& statement, std::int64_t number, const char* to) const;

  fs::path file;
  sqlite3* handle = nullptr;
};

/// Of the library that keeps the ledgers of sweeps, as it was loaded: "3.40.1".
std::string sqlite_version();

}  // namespace trainctl::study
