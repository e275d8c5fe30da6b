#pragma once

#include "base/files.hpp"
#include "report/compare/baseline.hpp"
#include "report/compare/gate.hpp"
#include "spec/load.hpp"
#include "study/bench/bench_plan.hpp"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::study {

/// A file of `bench --save`, or a run folder: one run that ended well. Throws Error(config) where
/// it is neither.
report::Baseline load_baseline(const fs::path& path);

/// report::row_for(), but for a row without settings only where the baseline's own config has these
/// values, as far as it is told.
const report::BaselineRow* comparable_row(
    const report::Baseline& baseline,
    const std::vector<std::pair<std::string, std::string>>& settings);

/// The resolved experiment as YAML, for the document of a bench.
std::string resolved_config(const spec::Loaded& loaded);

/// Digest of what the choice of trainer.channels_last=auto depends on in a resolved config: model,
/// training data without their folder, precision and accelerator.
std::string layout_inputs(const std::string& resolved);

/// Digest of the resolved values, without the keys that a bench varies and those that name places
/// or words and no work (name, loggers, roots of data sets ...).
std::string config_hash(const spec::Loaded& loaded, std::span<const std::string> varied);

/// Why a bench of `now` on the machine `here` cannot be compared with the baseline, a clause each;
/// empty: it can. `varied` are the keys that the bench varies. Throws Error(config) where the
/// baseline's config cannot be read.
std::vector<std::string> baseline_differences(const report::Baseline& baseline,
                                              const spec::Loaded& now, const Json& here,
                                              std::span<const std::string> varied);

/// The conditions of --fail-on and the baseline, read before the first run.
class BenchGate {
 public:
  /// Throws Error(config) for mistakes in the conditions, and for a baseline that cannot be read,
  /// or is of another machine or config and not forced.
  BenchGate(const BenchOptions& options, const BenchPlan& plan, const Json& machine,
            const PrintLine& print);

  /// What the conditions find in the rows. Empty without conditions.
  [[nodiscard]] std::vector<report::Finding> check(std::span<const report::BenchRow> rows) const;

  /// The rows that the baseline does not have.
  [[nodiscard]] std::vector<std::string> not_compared(std::span<const report::BenchRow> rows) const;
  /// What the runs of the baseline had.
  [[nodiscard]] Pinning pinning() const {
    return baseline_ ? Pinning{baseline_->num_threads, baseline_->channels_last} : Pinning{};
  }
  [[nodiscard]] report::Pairing pairing() const {
    return baseline_ ? report::Pairing::apart : report::Pairing::interleaved;
  }

 private:
  [[nodiscard]] std::vector<report::Contest> contests(std::span<const report::BenchRow> rows) const;

  std::vector<report::Condition> conditions_;
  std::optional<report::Baseline> baseline_;
  bool forced_ = false;
};

}  // namespace trainctl::study
