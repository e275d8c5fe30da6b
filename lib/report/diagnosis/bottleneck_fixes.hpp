#pragma once

#include "report/diagnosis/bottleneck_rules.hpp"

#include <vector>

// What the rules propose, by what was measured. Each list is in the order of preference; a change
// that the experiment does not accept is passed over.

namespace trainctl::report::fixes {

using Proposals = std::vector<Proposal>;

Proposals free_cores(const Facts& facts);
Proposals inspect_rank(const Facts& facts);
Proposals cool_gpu(const Facts& facts);
/// The number of threads that was replayed, else all cores.
Proposals other_threads(const Facts& facts);
Proposals larger_steps(const Facts& facts);
/// No setting, but the names of those that were not compared.
Proposals untried_settings(const Facts& facts);
Proposals less_cache(const Facts& facts);
Proposals fewer_threads(const Facts& facts);
Proposals fewer_workers(const Facts& facts);
/// As many as the step can use, at most one a core.
Proposals more_workers(const Facts& facts);
/// More than cores: they wait, and waits overlap.
Proposals waiting_workers(const Facts& facts);
/// Of all ranks, for the one that the others wait for: more than cores where these are left.
Proposals workers_of_straggler(const Facts& facts);
Proposals one_thread(const Facts& facts);
Proposals read_less(const Facts& facts);
Proposals cache_decoded(const Facts& facts);
Proposals pin(const Facts& facts);
Proposals keep_on_device(const Facts& facts);
Proposals smaller_buckets(const Facts& facts);
Proposals exchange_less(const Facts& facts);
Proposals save_beside(const Facts& facts);
Proposals save_less(const Facts& facts);
Proposals validate_less(const Facts& facts);
Proposals no_forced_sync(const Facts& facts);
Proposals record_steps(const Facts& facts);
Proposals fewer_steps(const Facts& facts);
Proposals no_anomaly_checks(const Facts& facts);
Proposals half_precision(const Facts& facts);
Proposals fill_device(const Facts& facts);
Proposals fewer_updates(const Facts& facts);
Proposals more_devices(const Facts& facts);

}  // namespace trainctl::report::fixes
