#pragma once

#include "study/tune/candidates.hpp"
#include "study/tune/paired_trials.hpp"

#include <optional>
#include <string>

namespace trainctl::study {

/// Returns "KEY=VALUE" of a change.
std::string setting_of(const report::TuneChange& change);

/// The results of a search so far, as a report with the rules that extend it.
class TuneRecord {
 public:
  TuneRecord(const TuneOptions& options, const report::TuneBaseline& baseline);

  /// Must be called first: records the run of the unchanged experiment.
  void start(const TuneSample& original);

  /// Keeps the last entry for each key, and all advice.
  void note(const TuneCandidates& found);

  void leave_out(const report::UntriedSetting& one);

  /// Records the share of the cores that other processes used during these runs.
  void note_contention(const ComparisonRuns& runs);

  /// Replaces the result of an earlier comparison of the same change.
  void note_try(const TuneCandidate& candidate, const ComparisonRuns& runs,
                const ComparisonRuling& ruling);

  /// Adds the change to the patch.
  void accept(const TuneCandidate& candidate, const ComparisonRuns& runs);

  /// Records that the current patch has won against the original.
  void note_proof(const ComparisonRuns& runs);

  /// Removes the entry with the lowest gain from the patch, which must not be empty, and returns
  /// it.
  report::TuneChange drop_weakest(const std::string& why);

  void end(report::TuneStopReason how, std::string why);

  void end_without_candidates();

  /// Ends a search whose budget was too short to decide every promising change.
  void end_undecided(report::TuneUndecided undecided);
  [[nodiscard]] bool is_over() const { return is_over_; }

  [[nodiscard]] const report::TuneReport& report() const { return report_; }

  /// Returns the report of a search that has ended; `stop_code` is set for a signal or an error.
  report::TuneReport finished(double used_s, std::optional<int> stop_code);

 private:
  /// Returns the setting that the verdict suggests and why it was not tried; empty if it was tried
  /// or if there is no such setting.
  [[nodiscard]] std::string untested_advice() const;

  report::TuneReport report_;
  double most_taken_ = 0;  // fraction of the cores that others used during any run
  bool is_over_ = false;
};

}  // namespace trainctl::study
