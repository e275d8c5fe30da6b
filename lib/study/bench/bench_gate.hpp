#pragma once

#include "report/compare/baseline.hpp"
#include "report/compare/gate.hpp"
#include "study/bench/bench_plan.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::study {

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
