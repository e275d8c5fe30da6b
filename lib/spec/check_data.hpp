#pragma once

#include "config/diagnostics.hpp"
#include "spec/load.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::spec {

/// What is known of a split once its headers have been read.
struct SplitFacts {
  std::int64_t samples = 0;
  std::int64_t classes = 0;  // 0: its labels are not classes
};

/// The checks that need the data: batch against samples, weights and top-k against classes, warm-up against steps.
/// Problems go into `diagnostics`.
void check_against_data(const Loaded& loaded, const SplitFacts& train, config::Diagnostics& diagnostics);

}  // namespace trainctl::spec
