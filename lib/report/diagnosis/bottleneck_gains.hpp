#pragma once

#include "report/diagnosis/bottleneck_rules.hpp"

#include <cstdint>
#include <vector>

// How much a change can gain, as an interval. The upper end is a bound: a change that affects more
// than can be accounted for has none.

namespace trainctl::report::gains {

/// Of a change whose effect on the rest of the run is not known.
Gain unknown();
/// Without so many seconds of the run: at most that.
Gain without(const Facts& facts, double seconds);
/// Batches that are always there: no waits, in the validation neither. Without a bound where loader
/// threads may take cores from the steps and no batch was replayed.
Gain of_loading(const Facts& facts);
/// Of a batch `factor` times as large: at most that many times as fast.
Gain of_larger_batch(const Facts& facts, double factor);
/// Of another number of threads for each rank.
Gain of_threads(const Facts& facts, int threads);
Gain of_no_anomaly_checks(const Facts& facts);
Gain of_bf16(const Facts& facts);
/// Of fewer checkpoints or none. Without a bound where they are written next to steps that want the
/// same cores.
Gain of_fewer_checkpoints(const Facts& facts);
/// Of validating after every second epoch in place of every epoch, and so on.
Gain of_less_validation(const Facts& facts);

/// Batch size, threads, precision and anomaly checks: what was done to find out whether another
/// value helps.
std::vector<SettingCheck> checks_of(const Facts& facts);

/// The factor by which the batch may grow for what was measured: 8, 4 or 2 where that many steps
/// are left in an epoch; 0: it cannot.
int batch_factor(const Facts& facts);

/// Whether what each step costs, whatever its batch, is likely a large part of it: it takes less
/// than a millisecond, or its batch has fewer than eight rows.
bool has_tiny_steps(const Facts& facts);

/// The low end of the gain from which on a replayed setting is proposed.
inline constexpr double kWorthProposing = 1.15;
/// A larger batch changes the training, and has to gain more.
inline constexpr double kWorthLargerBatch = 1.3;

}  // namespace trainctl::report::gains
