#pragma once

#include "bench/settings.hpp"
#include "report/compare/baseline.hpp"
#include "report/compare/gate.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::app {

/// What --fail-on and --baseline ask for, read before the first run.
class BenchGate {
 public:
  /// Throws Error(config) for mistakes in the conditions, and for a baseline that cannot be read,
  /// or is of another machine or config and not forced.
  BenchGate(const BenchFlags& flags, const BenchPlan& plan, const Json& machine,
            const Context& context);

  /// Empty without conditions.
  [[nodiscard]] std::vector<report::Finding> judge(std::span<const report::BenchRow> rows) const;

  /// The rows that the baseline does not have.
  [[nodiscard]] std::vector<std::string> not_compared(std::span<const report::BenchRow> rows) const;
  /// Of every run of the baseline, where it is told.
  [[nodiscard]] std::optional<int> num_threads() const {
    return baseline_ ? baseline_->num_threads : std::nullopt;
  }
  /// Of the runs of the baseline, as report::Baseline::channels_last.
  [[nodiscard]] std::map<std::string, bool> layouts() const {
    return baseline_ ? baseline_->channels_last : std::map<std::string, bool>();
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

}  // namespace trainctl::app
