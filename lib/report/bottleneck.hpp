#pragma once

#include "base/json.hpp"
#include "report/ending.hpp"
#include "report/ranks.hpp"
#include "report/record.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::report {

enum class Limit {
  input,
  transfer,
  communication,
  checkpoint,
  compute,
  optimizer,
  evaluation,
  host,
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
  int num_threads = 0;                      // of a rank; 0: not known
  std::optional<events::Usage> usage = {};  // of rank 0, over the epochs of the times
  std::optional<RankRow> straggler = {};    // the rank that the others wait for
  bool straggler_is_here = true;            // on the machine that `usage` is of
  /// Of a step: what all ranks would win with perfect loaders; absent for one rank.
  std::optional<double> ranks_wait_s = {};
  std::optional<double> overlap = {};             // of the exchange with the backward pass
  std::vector<std::int64_t> bucket_bytes = {};    // of a step's exchange
  std::optional<double> replay_step_s = {};       // forward and backward of a batch replayed
  std::optional<std::int64_t> replay_steps = {};  // that it is the median of

  /// Cores that rank 0 may use; 0: not known.
  [[nodiscard]] int cores() const;
};
BottleneckContext context_of(const RunRecord& record, const Levers& levers);

/// Shares and rates weighted by the time of the epochs that tell them, memory at its peak, the
/// GPU's clocks as they were most of the time; nothing where no epoch has any.
std::optional<events::Usage> sum_usage(std::span<const events::EpochEnded> epochs);

/// A number that a verdict rests on.
struct Evidence {
  std::string name;  // "data_wait_step"
  double value = 0;
  std::string unit;    // "s", "share", "samples/s", "cores", ...
  std::string text;    // half a sentence
  bool tells = false;  // it stands in the summary
};

/// What the run would be with a loader that always has the next batch, and takes no core for it.
struct PerfectLoader {
  double speedup = 1;  // of the whole: a factor, 1 = nothing
  double step_s = 0;   // of a batch, on average, without validation and saving
  double now_s = 0;    // as it is
  /// Forward and backward timed in a replay of so many steps; 0: taken from the steps of the run,
  /// as they were without their waits.
  std::int64_t replayed = 0;
};

/// Where the time goes and what the user can win. A wait (input, transfer, communication,
/// checkpoint) that takes 15 % or more is the bottleneck, since it can be hidden behind the work;
/// then evaluation from a third on, as it can be done less often; else the largest piece of work
/// (compute, optimizer, evaluation, host) if it takes 40 % or more; else the run is balanced. Why
/// it is so, and what to change, say the rules of bottleneck_rules.hpp.
struct Bottleneck {
  Limit limit = Limit::balanced;
  Limit part = Limit::balanced;  // that takes `share`; the verdict, unless its cause lies elsewhere
  std::string cause;  // of the rule that holds: "few_workers"; empty: nothing was measured
  double share = 0;   // of the wall time, 0 to 1
  /// Bound of the speed-up (a factor, 1 = nothing): wall time over the wall time without this part,
  /// for input_bound that of the perfect loader; for compute_bound and balanced, where no setting
  /// removes the work: without all waits and overhead.
  double headroom = 1;
  std::optional<PerfectLoader> perfect_loader = {};  // absent: no batch was counted
  std::string
      setting;  // an override that may help and that the run would accept; empty if none is known
  std::string diagnosis;  // what the cause means
  std::string
      advice;  // one sentence with the setting; it is a proposal to be measured, never a promise
  std::vector<Evidence> evidence = {};
};
Bottleneck find_bottleneck(const events::Timing& timing, const BottleneckContext& context);

/// "a perfect loader would give 1.13x ..."; below 1.05x also that loading is not worth more work.
std::string text_of(const PerfectLoader& perfect);

/// {verdict, share, headroom, advice, cause, diagnosis, setting, evidence, perfect_loader} of
/// result.json.
Json to_json(const Bottleneck& bottleneck);

}  // namespace trainctl::report
