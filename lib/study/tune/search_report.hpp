#pragma once

#include "study/tune/tune.hpp"

#include <optional>
#include <string>

namespace trainctl::study {

std::string setting_of(const report::TuneChange& change);

/// What a search has found so far: its report, and the rules by which that grows.
class TuneRecord {
 public:
  TuneRecord(const TuneWish& wish, const report::TuneBaseline& baseline);

  /// Told first: how the experiment as it is runs.
  void start(const TuneSample& original);
  /// The last word on each key is kept; advice stays.
  void note(const TuneCandidates& found);
  void leave_out(const report::TuneLeftOut& one);
  /// Notes what other processes took of the cores during these runs.
  void note_contention(const ComparisonRuns& runs);
  /// Replaces what an earlier comparison of the same change found.
  void note_try(const TuneCandidate& candidate, const ComparisonRuns& runs,
                const ComparisonRuling& ruling);
  /// It is part of the patch from now on.
  void accept(const TuneCandidate& candidate, const ComparisonRuns& runs);
  /// The patch as it is has won against the original.
  void note_proof(const ComparisonRuns& runs);
  /// Takes the entry of the lowest gain out of the patch, which must have one, and returns it.
  report::TuneChange drop_weakest(const std::string& why);

  void end(report::TuneEnd how, std::string why);
  void end_for_want_of_candidates();
  /// Ends a search whose budget was too short to decide all that may help.
  void end_undecided(report::TuneUndecided undecided);
  [[nodiscard]] bool is_over() const { return is_over_; }

  [[nodiscard]] const report::TuneReport& report() const { return report_; }
  [[nodiscard]] report::TuneChanges patch_changes() const;
  /// The report of a search that has ended, by a signal or an error where there is a code.
  report::TuneReport finished(double used_s, std::optional<int> stop_code);

 private:
  [[nodiscard]] long count(report::Ruling ruling) const;
  [[nodiscard]] std::string untested_advice() const;

  report::TuneReport report_;
  double most_taken_ = 0;  // share of the cores that other processes took during any run
  bool is_over_ = false;
};

}  // namespace trainctl::study
