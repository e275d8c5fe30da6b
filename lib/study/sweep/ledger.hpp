#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "report/search/sweep.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::study {

/// Of the library that keeps the ledgers of sweeps, as it was loaded: "3.40.1".
std::string sqlite_version();

class LedgerDatabase;

/// A run that a sweep is to make. Two of one config and seed are the same run.
struct PlannedRun {
  std::string config;  // hash of the resolved experiment without its seed
  std::uint64_t seed = 0;
  report::Overrides overrides;
};

/// What the ledger knows of a run.
struct LedgerRun {
  std::int64_t number = 0;  // stays, whatever becomes of the definition
  PlannedRun plan;
  report::SweepStatus status = report::SweepStatus::pending;
  int target = -1;            // rung that it is to come to; -1: not begun
  int rung = -1;              // that it has come to
  int retries = 0;            // starts that an error of resources has cost
  std::string holder;         // of one that is running: a line of lock_line()
  std::string result_before;  // of one that is running: hash of result.json before its start
  std::optional<int> exit_code;
  std::string message;
  std::int64_t epochs = 0;
  double wall_s = 0;
  std::optional<double> value;  // of the monitor
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<std::optional<double>> rung_values;  // of rungs 0 to `rung`
};

/// How a start of a run ended.
struct RunEnd {
  int exit_code = 0;
  std::string message;
  std::int64_t epochs = 0;
  double wall_s = 0;           // of this start
  bool lacked_memory = false;  // a rank of it was killed as the kernel does, or says so
  std::optional<double> value;
  std::vector<std::pair<std::string, double>> metrics;
};

/// The runs of a sweep, in an SQLite file that survives the death of the process and of the power
/// at any moment: each call here is one transaction that is on the disk when it returns. All throw
/// Error(resource) where the file cannot be read or written, and where a run is not in the state
/// that is to be left: then somebody else is at it.
class Ledger {
 public:
  /// Opens the file, or makes it, and keeps all others out. Throws Error(resource) for a file that
  /// is none.
  explicit Ledger(const fs::path& file);
  ~Ledger();
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) = delete;

  /// What the sweep is, as define() was told; null: nothing yet.
  [[nodiscard]] Json definition() const;
  /// The runs of the definition from now on, in this order. Those that are there already stay as
  /// they are; others that are there are kept and not listed. Returns how many are new.
  std::size_t define(const Json& definition, std::span<const PlannedRun> runs);
  /// Those of the definition, in its order.
  [[nodiscard]] std::vector<LedgerRun> runs() const;
  /// Also those that earlier definitions had, by number.
  [[nodiscard]] std::vector<LedgerRun> all_runs() const;

  /// By what the values of the runs are, as rank() was told; null: nothing yet.
  [[nodiscard]] Json ranking() const;
  using Values = std::vector<std::pair<std::int64_t, std::optional<double>>>;
  /// From now on by that: the values of the runs that have ended, by number.
  void rank(const Json& ranking, const Values& values);

  /// All of them are to come to that rung.
  void aim(std::span<const std::int64_t> numbers, int target);
  /// pending -> running.
  void claim(std::int64_t number, const std::string& holder, const std::string& result_before);
  /// running -> failed; or -> ok where its target is the last rung or it has ended before that by
  /// itself; else -> pending, at its target.
  void end(std::int64_t number, const RunEnd& end, bool is_complete);
  enum class Because { stopped, lacked_resources };
  /// running -> pending, and nothing is learnt.
  void put_back(std::int64_t number, Because because);
  /// pending -> pruned.
  void prune(std::span<const std::int64_t> numbers);
  /// failed or pruned -> pending, where it stands.
  void reopen(std::span<const std::int64_t> numbers);

 private:
  std::unique_ptr<LedgerDatabase> database_;
};

}  // namespace trainctl::study
