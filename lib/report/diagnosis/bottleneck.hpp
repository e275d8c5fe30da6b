#pragma once

#include "report/diagnosis/ranks.hpp"
#include "report/record/run_result.hpp"

namespace trainctl::report {

enum class BottleneckKind {
  machine,
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
/// Returns the name in result.json: "machine_busy", "input_bound", "compute_bound", ...,
/// "balanced".
const char* name_of(BottleneckKind limit);

/// The forward and backward passes of a batch, replayed with another value of one setting.
struct ReplayedSetting {
  std::int64_t value = 0;
  double step_s = 0;
};

/// The inputs of the advice in addition to the times.
struct BottleneckContext {
  int num_workers = 0;
  int world_size = 1;
  std::int64_t batch_size = 0;     // per device
  std::int64_t train_samples = 0;  // 0: unknown
  std::int64_t max_epochs = 0;     // 0: unknown
  bool on_gpu = false;
  AdviceSettings levers;
  int num_threads = 0;                      // per rank; 0: unknown
  std::optional<events::Usage> usage = {};  // of rank 0, over the epochs of the times
  std::optional<RankRow> straggler = {};    // the rank that the others wait for
  bool straggler_is_here = true;            // the straggler is on the machine of `usage`
  /// Seconds per step that all ranks would save with perfect loaders; absent for one rank.
  std::optional<double> ranks_wait_s = {};
  std::optional<double> overlap = {};           // overlap of the all-reduce with the backward pass
  std::vector<std::int64_t> bucket_bytes = {};  // gradient buckets of a step
  std::optional<double> replay_step_s = {};     // forward and backward pass of a replayed batch
  std::optional<std::int64_t> replay_steps = {};      // number of steps in its median
  std::optional<ReplayedSetting> larger_batch = {};   // rows per rank
  std::optional<ReplayedSetting> other_threads = {};  // all cores, or one
  std::optional<double> bf16_step_s = {};             // with bf16-mixed

  /// Returns the number of cores that rank 0 may use; 0: unknown.
  [[nodiscard]] int cores() const;
  /// Returns whether twice as many ranks may help: on a CPU, with more cores than ranks.
  [[nodiscard]] bool has_room_for_devices() const;
};
/// Collects the context of a run's verdict.
BottleneckContext context_of(const RunRecord& record, const AdviceSettings& levers);

/// Averages fractions and rates weighted by the time of the epochs that have them, takes the peak
/// of memory, and the most frequent state of the GPU's clocks; nullopt if no epoch has usage data.
std::optional<events::Usage> sum_usage(std::span<const events::EpochEnded> epochs);

/// Returns the fraction of the cores that other processes used; 0 if this caused no delay, or was
/// measured for less than half a second.
double taken_cores(const events::Usage& usage);

/// A measured number that supports a verdict.
struct Evidence {
  std::string name;  // "data_wait_step"
  double value = 0;
  std::string unit;         // "s", "share", "samples/s", "cores", ...
  std::string text;         // half a sentence
  bool in_summary = false;  // shown in the summary
};

/// The expected speedup of the whole run after a change, as a factor.
struct Gain {
  double low = 1;
  std::optional<double> high = {};  // absent: no upper bound is known
  bool replayed = false;            // the passes were timed with the change
};
/// Returns a text such as "1.60x to 2.10x as fast as now, estimated ...", "at most 2.00x as fast as
/// now" or "unknown until it is tried".
std::string text_of(const Gain& gain);

/// Whether a setting was compared with its alternative before the verdict says that no setting
/// helps.
struct SettingCheck {
  std::string key;  // "loader.batch_size"
  bool done = false;
  std::optional<Gain> gain = {};  // of the alternative; absent: excluded by a rule
  std::string text;               // "a batch of 512 (1.02x to 1.31x as fast, ...)"
};

/// The speed of the run with a loader that always has the next batch ready and uses no core.
struct PerfectLoader {
  double speedup = 1;  // of the whole run; 1: none
  double step_s = 0;   // per batch on average, without validation and saving
  double now_s = 0;    // the same in the actual run
  /// The number of steps in the replay that timed the forward and backward passes; 0: the times are
  /// from the run's own steps without their waits.
  std::int64_t replayed = 0;
};

/// The kind of command that is suggested if the verdict has no setting.
enum class Next { tune, more_devices, run_again, doctor };

/// Where the time goes and what the user can gain. A wait (input, transfer, communication,
/// checkpoint) with a share of 15 % or more is the bottleneck, because it can overlap with the
/// work; then evaluation with a third or more, because it can run less often; then the largest part
/// of the work (compute, optimizer, evaluation, host) with 40 % or more; otherwise the run is
/// balanced. The rules in bottleneck_rules.hpp determine the cause and the fix.
struct Bottleneck {
  BottleneckKind limit = BottleneckKind::balanced;
  BottleneckKind part = BottleneckKind::balanced;  // the part with `share`, not always the cause's
  std::string cause;  // of the matching rule: "few_workers"; empty: nothing was measured
  double share = 0;   // of the wall time, 0 to 1; for a busy machine: of the cores' time
  Gain gain = {};     // of the advice; the low end is a conservative estimate
  /// The wall time divided by the wall time without all waits and overhead.
  double without_waits = 1;
  std::vector<SettingCheck> checks = {};  // batch size, threads, precision and anomaly checks
  std::optional<PerfectLoader> perfect_loader = {};  // absent: no batch was counted
  Next next = Next::tune;  // the kind of command to suggest if there is no setting
  std::string setting;     // a valid override that may help; empty: none is known
  std::string diagnosis;   // the meaning of the cause
  std::string advice;      // one sentence with the setting, a proposal to measure
  std::vector<Evidence> evidence = {};
  /// For a busy machine: the verdict for the same times on a quiet machine. Empty or one element.
  std::vector<Bottleneck> otherwise = {};
};
/// Finds the bottleneck of a run from its time budget.
Bottleneck find_bottleneck(const events::Timing& timing, const BottleneckContext& context);

/// Returns one line such as "compute: forward and backward take 59 % of the epoch time" from the
/// members of to_json().
std::string bottleneck_text(std::string_view name, std::string_view cause, double share);

/// Returns a text such as "if data loading took no time, the run would be 1.13x as fast as now
/// (...)"; below 1.05x it adds that loading is not the bottleneck.
std::string text_of(const PerfectLoader& perfect);

/// Returns {verdict, share, headroom, gain, advice, cause, diagnosis, setting, checks, evidence,
/// perfect_loader, otherwise} of result.json. `headroom` is the upper end of the gain; null:
/// unknown.
Json to_json(const Bottleneck& bottleneck);

}  // namespace trainctl::report
