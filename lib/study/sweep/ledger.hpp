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

/// Returns the version of the loaded SQLite library: "3.40.1".
std::string sqlite_version();

class LedgerDatabase;

/// A planned run of a sweep. Two entries with the same config, seed and fold are the same run.
struct PlannedRun {
  std::string config;  // hash of the resolved experiment without its seed, with fold 0
  std::uint64_t seed = 0;
  report::Overrides overrides;
  std::optional<int> fold = {};  // with --folds
};

/// The state of a run in the ledger.
struct LedgerRun {
  std::int64_t number = 0;  // stays the same when the definition changes
  PlannedRun plan;
  report::SweepStatus status = report::SweepStatus::pending;
  int target = -1;            // rung to reach; -1: not started
  int rung = -1;              // last rung reached
  int retries = 0;            // restarts after resource errors
  std::string holder;         // for a running run: a line of lock_line()
  std::string result_before;  // for a running run: hash of result.json before its start
  std::optional<int> exit_code;
  std::string message;
  std::int64_t epochs = 0;
  double wall_s = 0;
  std::optional<double> value;  // of the monitor
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<std::optional<double>> rung_values;  // for rungs 0 to `rung`
};

/// How a start of a run ended.
struct RunEnd {
  int exit_code = 0;
  std::string message;
  std::int64_t epochs = 0;
  double wall_s = 0;           // of this start
  bool lacked_memory = false;  // a rank was killed by the OOM killer or reported a lack of memory
  std::optional<double> value;
  std::vector<std::pair<std::string, double>> metrics;
};

/// The runs of a sweep in an SQLite file. Every call is one transaction that is on disk when it
/// returns, so the file survives a crash or a power failure at any moment. All functions throw
/// Error(resource) when the file cannot be read or written, and when a run is not in the expected
/// state, because another process then uses the ledger.
class Ledger {
 public:
  /// Opens or creates the file and locks out other processes. Throws Error(resource) for a file
  /// that is not a ledger.
  explicit Ledger(const fs::path& file);
  ~Ledger();
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) = delete;

  /// Returns the definition that define() stored; null before the first call.
  [[nodiscard]] Json definition() const;
  /// Sets the definition and its runs, in this order. Existing runs keep their state; existing runs
  /// that are not in `runs` are kept but not listed. Returns the number of new runs.
  std::size_t define(const Json& definition, std::span<const PlannedRun> runs);
  /// Returns the runs of the definition, in its order.
  [[nodiscard]] std::vector<LedgerRun> runs() const;
  /// Also returns the runs of earlier definitions, by number.
  [[nodiscard]] std::vector<LedgerRun> all_runs() const;

  /// Returns the ranking that rank() stored; null before the first call.
  [[nodiscard]] Json ranking() const;
  using Values = std::vector<std::pair<std::int64_t, std::optional<double>>>;
  /// Stores the ranking and the values of the finished runs by it, by run number.
  void rank(const Json& ranking, const Values& values);

  /// Sets the target rung of all these runs.
  void set_target(std::span<const std::int64_t> numbers, int target);
  /// pending -> running.
  void claim(std::int64_t number, const std::string& holder, const std::string& result_before);
  /// running -> failed; or -> ok if its target is the last rung or the run ended earlier by itself;
  /// else -> pending, with its target as the rung reached.
  void end(std::int64_t number, const RunEnd& end, bool is_complete);
  enum class Reason { stopped, lacked_resources };
  /// running -> pending, without a result.
  void put_back(std::int64_t number, Reason reason);
  /// pending -> pruned.
  void prune(std::span<const std::int64_t> numbers);
  /// failed or pruned -> pending, at its current rung.
  void reopen(std::span<const std::int64_t> numbers);

 private:
  std::unique_ptr<LedgerDatabase> database_;
};

}  // namespace trainctl::study
