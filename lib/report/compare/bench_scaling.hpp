#pragma once

#include "report/compare/bench.hpp"

namespace trainctl::report {

/// What stays when devices are added: the samples of a step, or those of a device.
enum class Scaling { weak, strong };
constexpr std::array<const char*, 2> enum_names(Scaling) { return {"weak", "strong"}; }

/// One row of a bench over numbers of devices, against the first one that differs from it in these
/// alone (with strong scaling in the batch of a device, too).
struct ScalingRow {
  std::size_t row = 0;   // of the bench
  std::size_t base = 0;  // of the bench
  int devices = 1;
  std::int64_t global_batch = 0;        // 0: no run told
  Speedup speedup;                      // of training samples a second, in the steady epochs
  Speedup efficiency;                   // the same, over how many times the devices
  std::optional<double> exposed_s;      // a step waited for other ranks, median of the repeats
  std::optional<double> exposed_share;  // of the step
  std::optional<SlowRank> slowest;      // of the repeat in which it was furthest behind
  std::optional<double> loss_gap;       // furthest relative difference from the base's losses
};

/// Those rows of a bench that name `trainer.devices` as a number; empty where fewer than two do.
std::vector<ScalingRow> scaling_rows(std::span<const BenchRow> rows, Scaling mode);

/// devices, samples a step, samples/s, speed-up, efficiency with its 95 % interval, exposed
/// communication, slowest rank, batches, losses.
Table scaling_table(std::span<const BenchRow> rows, std::span<const ScalingRow> scaling);
/// What the columns mean, in plain text with its newlines.
std::string scaling_notes(std::span<const ScalingRow> scaling, Scaling mode);
/// `scaling` of the bench's document; null where there are no such rows.
Json scaling_json(std::span<const BenchRow> rows, std::span<const ScalingRow> scaling,
                  Scaling mode);

}  // namespace trainctl::report
