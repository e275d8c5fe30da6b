#pragma once

#include "spec/options/scheduler.hpp"
#include "stage/stages.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::stages {

/// A linear warm-up followed by a curve, like torch's SequentialLR of a LinearLR and the scheduler:
/// the curve counts its intervals from the end of the warm-up.
class WarmedUp : public stage::Scheduler {
 public:
  WarmedUp(const spec::scheduler::Warmup& warmup, const stage::SchedulerContext& context);

  [[nodiscard]] double lr(std::int64_t epoch, std::int64_t global_step) const final;
  void observe(std::int64_t, double) override {}
  [[nodiscard]] std::string monitor() const override { return {}; }
  /// Returns the intervals of the run after the warm-up, at least 1. Throws Error(config) if the
  /// length of the run is unknown or the warm-up fills it.
  [[nodiscard]] std::int64_t intervals_after_warmup() const;
  /// Returns the length set under `key`, or for auto the intervals after the warm-up.
  [[nodiscard]] std::int64_t length_or_rest(const config::Auto<std::int64_t>& length,
                                            const char* key) const;

 protected:
  /// Returns the rate `t` intervals after the warm-up.
  [[nodiscard]] virtual double curve(std::int64_t t) const = 0;
  [[nodiscard]] double initial_lr() const { return context_.initial_lr; }
  /// Returns the intervals since the end of the warm-up; negative during the warm-up.
  [[nodiscard]] std::int64_t since_warmup(std::int64_t epoch, std::int64_t global_step) const;
  /// Returns whether the epoch begins during the warm-up.
  [[nodiscard]] bool is_warming_up(std::int64_t epoch) const;

 private:
  [[nodiscard]] std::int64_t intervals(std::int64_t epochs) const;
  /// Returns the intervals of the whole run; nullopt if its length is unknown.
  [[nodiscard]] std::optional<std::int64_t> run_intervals() const;

  spec::scheduler::Warmup warmup_options_;
  stage::SchedulerContext context_;
  std::int64_t warmup_intervals_ = 0;  // 0 without a warm-up
};

}  // namespace trainctl::stages
