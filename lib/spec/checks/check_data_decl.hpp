#pragma once

#include "config/diagnostics.hpp"
#include "spec/load.hpp"
#include "spec/sample.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::spec {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// What is known of a split once its headers have been read.
struct SplitFacts {
  std::int64_t samples = 0;
  std::int64_t classes = 0;  // 0: its labels are not classes
  std::optional<ImageSize> image =
      {};  // as it leaves the transforms; absent where that is not known
  std::optional<SampleKind> kind = {};  // absent where nobody trains on it
};

/// The checks that need the data: batch against samples, weights and top-k against classes, model,
/// loss and metrics against what a sample is made of, the schedule against the length of the run.
/// Without facts, the schedule against what the file alone tells. Problems go into `diagnostics`.
void check_against_data(const Loaded& loaded, const std::optional<SplitFacts>& train,
                        config::Diagnostics& diagnostics);

}  // namespace trainctl::spec
