#pragma once

#include <algorithm>
#include <cstdint>

namespace trainctl::spec {

/// Ranks on GPUs agree on a stop after every so many steps, or batches of validation: where lines
/// are logged, and the host waits anyway, or a little more often, as a signal waits for it.
constexpr std::int64_t agreement_every(std::int64_t log_every_n_steps) {
  return std::min<std::int64_t>(log_every_n_steps, 10);
}

}  // namespace trainctl::spec
