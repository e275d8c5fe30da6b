#pragma once

#include "base/json.hpp"
#include "report/ending.hpp"
#include "report/record.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace trainctl::report {

enum class Limit {
  input,
  h2d,
  allreduce,
  checkpoint,
  compute,
  optimizer,
  evaluation,
  overhead,
  balanced
};
/// As in result.json: "input_bound", "compute_bound", ..., "balanced".
const char* name_of(Limit limit);

/// What advice depends on, beside the times.
struct BottleneckContext {
  int num_workers = 0;
  int world_size = 1;
  std::int64_t batch_size = 0;     // per device
  std::int64_t train_samples = 0;  // 0: not known
  std::int64_t max_epochs = 0;     // 0: not known
  bool on_gpu = false;
  Levers levers;
};
BottleneckContext context_of(const RunRecord& record, const Levers& levers);

/// Where the time goes and what the user can win. A wait (input, h2d, allreduce, checkpoint) that
/// takes 15 % or more is the bottleneck, since it can be hidden behind the work; else the largest
/// piece of work (compute, optimizer, evaluation, overhead) if it takes 40 % or more; else the run
/// is balanced.
struct Bottleneck {
  Limit limit = Limit::balanced;
  double share = 0;  // of the wall time, 0 to 1
  /// Bound of the speed-up (a factor, 1 = nothing): wall time over the wall time without this part;
  /// for compute_bound and balanced, where no setting removes the work: without all waits and
  /// overhead.
  double headroom = 1;
  std::string
      setting;  // an override that may help and that the run would accept; empty if none is known
  std::string
      advice;  // one sentence with the setting; it is a proposal to be measured, never a promise
};
Bottleneck find_bottleneck(const events::Timing& timing, const BottleneckContext& context);

/// {verdict, share, headroom, advice} of result.json.
Json to_json(const Bottleneck& bottleneck);

}  // namespace trainctl::report
