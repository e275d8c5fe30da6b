#pragma once

#include "bench_settings.hpp"
#include "report/baseline.hpp"
#include "report/gate.hpp"

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

  [[nodiscard]] report::Pairing pairing() const {
    return baseline_ ? report::Pairing::apart : report::Pairing::interleaved;
  }

 private:
  [[nodiscard]] std::vector<report::Contest> contests(std::span<const report::BenchRow> rows) const;

  std::vector<report::Condition> conditions_;
  std::optional<report::Baseline> baseline_;
};

}  // namespace trainctl::app
