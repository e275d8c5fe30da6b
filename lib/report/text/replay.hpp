#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/text/table.hpp"

#include <string>
#include <vector>

// What `run --replay-step` tells: one step of a run that has diverged, repeated.

namespace trainctl::report {

struct Replay {
  events::Replayed step;
  std::string dump;                  // the file
  std::vector<std::string> changed;  // fields of the config: "optimizer.lr: 0.1, was 1e+38"
};

/// One line a tensor: shape, NaN, Inf, range and mean of the finite values.
Table tensor_table(const char* title, const std::vector<events::TensorSummary>& tensors);

/// What came out and whether it is what was recorded, then the outputs of the layers and the
/// tensors that are not finite.
std::string replay_text(const Replay& replay, const Style& style);

/// Schema "trainctl.replay/1".
Json replay_document(const Replay& replay);

}  // namespace trainctl::report
