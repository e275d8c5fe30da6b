#pragma once

#include "report/diagnosis/bottleneck_rules.hpp"

// What was measured, against the bounds of the rules. Where something was not told its symptom does
// not hold.

namespace trainctl::report::symptoms {

bool always(const Facts& facts);
bool others_take_cores(const Facts& facts);
bool other_threads_gain(const Facts& facts);
bool larger_batch_gains(const Facts& facts);
bool bf16_gains(const Facts& facts);
bool memory_is_short(const Facts& facts);
bool threads_exceed_cores(const Facts& facts);
bool workers_exceed_cores(const Facts& facts);
bool quota_is_short(const Facts& facts);
bool threads_spin(const Facts& facts);
bool disk_is_slow(const Facts& facts);
bool source_sleeps(const Facts& facts);
bool has_no_workers(const Facts& facts);
bool has_few_workers(const Facts& facts);
bool may_pin(const Facts& facts);
bool straggler_loads(const Facts& facts);
bool has_straggler(const Facts& facts);
bool exchanges_late(const Facts& facts);
bool saves_in_the_step(const Facts& facts);
bool syncs_each_step(const Facts& facts);
bool launches_each_kernel(const Facts& facts);
bool gpu_is_throttled(const Facts& facts);
bool looks_for_anomalies(const Facts& facts);
bool computes_in_full(const Facts& facts);
bool is_on_gpu(const Facts& facts);

}  // namespace trainctl::report::symptoms
