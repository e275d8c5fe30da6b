#pragma once

#include "report/record/run_result.hpp"
#include "study/run/run.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// The attempts of a run that `trainer.on_divergence` starts again. What an attempt left moves to
/// attempt-N/ below the run folder, N a number that is free, so that the folder itself is always
/// that of the newest one.
class Attempts {
 public:
  /// later: at a checkpoint.
  enum class Begins { anew, later };

  /// `request` outlives it. Where it resumes, attempts that result.json of the folder tells of
  /// count. Throws Error(resource).
  Attempts(const RunRequest& request, fs::path folder);

  /// What to run first: as asked for, with the overrides of the attempt that goes on. Throws Error
  /// where these do not fit.
  [[nodiscard]] RunRequest current() const;
  /// Whether there is anything to run after an attempt that ended so.
  [[nodiscard]] bool has_next(const report::Ending& ending) const;
  /// What to run after an attempt that ended so, from its beginning: as first asked for, with the
  /// next overrides. Nothing where it does not train, did not diverge, or nothing is left to try.
  /// Throws Error where the overrides do not fit, or the folder cannot be cleared.
  std::optional<RunRequest> after(const report::Ending& ending);

  [[nodiscard]] bool is_another() const { return !past_.empty(); }
  /// Why there is another attempt, and what it changes.
  [[nodiscard]] std::string notice(Begins begins) const;
  /// All attempts where this one ended so; empty where there is nothing to fall back on.
  [[nodiscard]] std::vector<report::Attempt> with_last(const report::Ending& ending) const;

 private:
  [[nodiscard]] report::Attempt told(const report::Ending& ending) const;
  [[nodiscard]] RunRequest changed(const std::vector<std::string>& changes) const;
  [[nodiscard]] std::string put_aside() const;

  const RunRequest& request_;
  fs::path folder_;
  std::vector<std::string> changes_;  // of the attempt that runs
  std::vector<report::Attempt> past_;
};

}  // namespace trainctl::study
