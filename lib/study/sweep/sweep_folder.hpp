#pragma once

#include "base/clock.hpp"
#include "report/search/sweep.hpp"
#include "study/folder/run_folder.hpp"
#include "study/sweep/ledger.hpp"
#include "study/sweep/planned_sweep.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace trainctl::study {

/// Creates and locks the folder of a sweep: --out; else the folder of the newest sweep of this name
/// if it is to be resumed, or a new one. Throws Error(resource) when another sweep uses it, because
/// two sweeps with one ledger would start its runs twice.
RunFolder sweep_folder(const SweepOptions& options, const std::string& name);

enum class PendingWork { nothing, runs };

/// Writes the definition into the ledger, and ranks finished runs by the current options. Throws
/// Error(config) when the ledger has another definition or is unfinished and --resume was not
/// given; with --resume also when its runs were stopped by other rules of --asha.
PendingWork prepare(Ledger& ledger, const PlannedSweep& sweep, const SweepOptions& options,
                    const std::filesystem::path& folder);

/// Returns the contents of the ledger for tables and documents.
report::Sweep sweep_record(const Ledger& ledger, const PlannedSweep& sweep,
                           const SweepOptions& options, const std::filesystem::path& config_file,
                           const std::filesystem::path& folder);

/// Returns 130 or 75 if a signal ended the sweep, 5 if runs have failed, else 0.
int exit_code_of(const report::Sweep& sweep, const std::optional<int>& signal);

/// Writes sweep.json and results.csv of the sweep's folder, each atomically. Throws
/// Error(resource).
void write_sweep_files(const report::Sweep& sweep);

/// Writes report.html of the sweep's folder. A failure is only a warning.
class SweepPage {
 public:
  explicit SweepPage(const Clock& clock) : clock_(clock) {}

  /// Writes at most every 30 s, and less often if the page takes long.
  void write_if_due(const report::Sweep& sweep);
  void write(const report::Sweep& sweep);

  /// Returns the path of the page; empty if the last write failed.
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  const Clock& clock_;
  double not_before_ = 0;
  bool has_begun_ = false;
  std::filesystem::path file_;
};

/// Returns a progress line about a run that has ended or advanced.
std::string progress_line(const LedgerRun& run, const PlannedSweep& sweep);

}  // namespace trainctl::study
