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

/// Loads a file of `bench --save`, or a run folder as one successful run. Throws Error(config) when
/// the path is neither.
report::Baseline load_baseline(const fs::path& path);

/// Same as report::row_for(), but returns a row without settings only if the baseline's own config,
/// as far as it is known, has these values.
const report::BaselineRow* comparable_row(
    const report::Baseline& baseline,
    const std::vector<std::pair<std::string, std::string>>& settings);

/// Returns the resolved experiment as YAML, for the document of a bench.
std::string resolved_config(const spec::Loaded& loaded);

/// Returns a digest of the values in a resolved config that trainer.channels_last=auto depends on:
/// the model, the training data without their folder, precision and accelerator.
std::string layout_inputs(const std::string& resolved);

/// Returns a digest of the resolved values, without the varied keys and without keys for paths and
/// labels that do not change the computation (name, loggers, dataset roots, ...).
std::string config_hash(const spec::Loaded& loaded, std::span<const std::string> varied);

/// Returns the reasons why a bench of `now` on the machine `here` cannot be compared with the
/// baseline, one clause each; empty if it can. `varied` are the keys that the bench varies. Throws
/// Error(config) when the baseline's config cannot be read.
std::vector<std::string> baseline_differences(const report::Baseline& baseline,
                                              const spec::Loaded& now, const Json& here,
                                              std::span<const std::string> varied);

/// The conditions of --fail-on and the baseline, which are read before the first run.
class BenchGate {
 public:
  /// Throws Error(config) for invalid conditions, and for a baseline that cannot be read or that
  /// belongs to another machine or config and is not forced.
  BenchGate(const BenchOptions& options, const BenchPlan& plan, const Json& machine,
            const PrintLine& print);

  /// Returns the result of each condition for these rows; empty without conditions.
  [[nodiscard]] std::vector<report::Finding> check(std::span<const report::BenchRow> rows) const;

  /// Returns the rows that the baseline lacks.
  [[nodiscard]] std::vector<std::string> not_compared(std::span<const report::BenchRow> rows) const;
  /// Returns the threads and memory format of the baseline's runs.
  [[nodiscard]] Pinning pinning() const {
    return baseline_ ? Pinning{baseline_->num_threads, baseline_->channels_last} : Pinning{};
  }
  [[nodiscard]] report::Pairing pairing() const {
    return baseline_ ? report::Pairing::unpaired : report::Pairing::interleaved;
  }

 private:
  [[nodiscard]] std::vector<report::GateComparison> contests(
      std::span<const report::BenchRow> rows) const;

  std::vector<report::Condition> conditions_;
  std::optional<report::Baseline> baseline_;
  bool forced_ = false;
};

}  // namespace trainctl::study
