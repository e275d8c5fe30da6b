#pragma once

#include "report/compare/bench.hpp"

namespace trainctl::report {

/// What stays constant when devices are added: weak: the samples per device; strong: the samples
/// per step.
enum class Scaling { weak, strong };
constexpr std::array<const char*, 2> enum_names(Scaling) { return {"weak", "strong"}; }

/// One row of a bench over device counts, compared with the first row that differs only in the
/// device count (for strong scaling also in the batch size per device).
struct ScalingRow {
  std::size_t row = 0;   // index in the bench
  std::size_t base = 0;  // index in the bench
  int devices = 1;
  std::int64_t global_batch = 0;        // 0: unknown
  Speedup speedup;                      // of training samples per second in the steady epochs
  Speedup efficiency;                   // speedup divided by the ratio of the device counts
  std::optional<double> exposed_s;      // wait for other ranks in a step, median of the repeats
  std::optional<double> exposed_share;  // as a fraction of the step
  std::optional<SlowRank> slowest;      // of the repeat with the largest delay
  std::optional<double> loss_gap;       // largest relative difference from the base's losses
};

/// Returns the rows of a bench that set `trainer.devices` to a number; empty if fewer than two do.
std::vector<ScalingRow> scaling_rows(std::span<const BenchRow> rows, Scaling mode);

/// Returns a table of devices, samples per step, samples/s, speedup, efficiency with its 95 %
/// interval, exposed communication, slowest rank, batches, losses.
Table scaling_table(std::span<const BenchRow> rows, std::span<const ScalingRow> scaling);
/// Returns plain-text lines that explain the columns.
std::string scaling_notes(std::span<const ScalingRow> scaling, Scaling mode);
/// Returns `scaling` of the bench's document; null if there are no such rows.
Json scaling_json(std::span<const BenchRow> rows, std::span<const ScalingRow> scaling,
                  Scaling mode);

}  // namespace trainctl::report
