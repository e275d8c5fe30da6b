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

/// Makes the folder of a sweep and locks it: --out; else that of the newest sweep of this name
/// where it is to be resumed, or a new one. Throws Error(resource) where a sweep is at work in it:
/// two on one ledger would start its runs twice.
RunFolder sweep_folder(const SweepOptions& options, const std::string& name);

enum class Todo { nothing, runs };

/// The ledger has the definition from here on, and runs that are done are ranked by what is asked
/// for now. Throws Error(config) where it has another, or is not done, and nobody has said
/// --resume; also with --resume where its runs were stopped by other rules of --asha.
Todo prepare(Ledger& ledger, const PlannedSweep& sweep, const SweepOptions& options,
             const std::filesystem::path& folder);

/// Returns what the ledger knows, for tables and documents.
report::Sweep sweep_record(const Ledger& ledger, const PlannedSweep& sweep,
                           const SweepOptions& options, const std::filesystem::path& config_file,
                           const std::filesystem::path& folder);

/// 130 or 75 where a signal ended it, 5 where runs have failed, else 0.
int exit_code_of(const report::Sweep& sweep, const std::optional<int>& signal);

/// sweep.json and results.csv of its folder, each as a whole or not at all. Throws
/// Error(resource).
void write_sweep_files(const report::Sweep& sweep);

/// report.html of its folder. One that cannot be written is a warning.
class SweepPage {
 public:
  explicit SweepPage(const Clock& clock) : clock_(clock) {}

  /// At most every 30 s, and less often where the page takes long.
  void write_sometimes(const report::Sweep& sweep);
  void write(const report::Sweep& sweep);

  /// Empty: the last one could not be written.
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  const Clock& clock_;
  double not_before_ = 0;
  bool has_begun_ = false;
  std::filesystem::path file_;
};

/// A line about a run that has ended or moved on.
std::string progress_line(const LedgerRun& run, const PlannedSweep& sweep);

}  // namespace trainctl::study
