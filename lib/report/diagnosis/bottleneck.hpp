#pragma once

#include "base/json.hpp"
#include "report/diagnosis/ranks.hpp"
#include "report/record/run_record.hpp"
#include "report/record/run_result.hpp"

namespace trainctl::report {

enum class Limit {
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
/// As in result.json: "machine_busy", "input_bound", "compute_bound", ..., "balanced".
const char* name_of(Limit limit);

/// Forward and backward of a batch, replayed with another value of one setting.
struct ReplayedSetting {
  std::int64_t value = 0;
  double step_s = 0;
};

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
  std::optional<double> overlap = {};                 // of the exchange with the backward pass
  std::vector<std::int64_t> bucket_bytes = {};        // of a step's exchange
  std::optional<double> replay_step_s = {};           // forward and backward of a batch replayed
  std::optional<std::int64_t> replay_steps = {};      // that it is the median of
  std::optional<ReplayedSetting> larger_batch = {};   // rows of a rank
  std::optional<ReplayedSetting> other_threads = {};  // all cores, or one
  std::optional<double> bf16_step_s = {};             // under bf16-mixed

  /// Cores that rank 0 may use; 0: not known.
  [[nodiscard]] int cores() const;
  /// Whether twice as many ranks may help: on a CPU, with more cores than ranks.
  [[nodiscard]] bool has_room_for_devices() const;
};
BottleneckContext context_of(const RunRecord& record, const Levers& levers);

/// Shares and rates weighted by the time of the epochs that tell them, memory at its peak, the
/// GPU's clocks as they were most of the time; nothing where no epoch has any.
std::optional<events::Usage> sum_usage(std::span<const events::EpochEnded> epochs);

/// The share of the cores that others took; 0 where it held nothing up, or was not measured over
/// half a second.
double taken_cores(const events::Usage& usage);

/// A number that a verdict rests on.
struct Evidence {
  std::string name;  // "data_wait_step"
  double value = 0;
  std::string unit;    // "s", "share", "samples/s", "cores", ...
  std::string text;    // half a sentence
  bool tells = false;  // it stands in the summary
};

/// How many times as fast the whole run would be after a change.
struct Gain {
  double low = 1;
  std::optional<double> high = {};  // absent: no bound is known
  bool replayed = false;            // the passes were timed with the change
};
/// "1.6x to 2.1x as fast (replayed)", "at most 2.00x as fast", "gain unknown until it is tried".
std::string text_of(const Gain& gain);

/// Whether a setting was compared with its alternative before the verdict says that none helps.
struct SettingCheck {
  std::string key;  // "loader.batch_size"
  bool done = false;
  std::optional<Gain> gain = {};  // of the alternative; absent: a rule excludes it
  std::string text;               // "a batch of 512: 1.02x to 1.31x as fast (replayed)"
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

/// The command that follows a verdict without a setting.
enum class Next { tune, more_devices, run_again, doctor };

/// Where the time goes and what the user can win. A wait (input, transfer, communication,
/// checkpoint) that takes 15 % or more is the bottleneck, since it can be hidden behind the work;
/// then evaluation from a third on, as it can be done less often; else the largest piece of work
/// (compute, optimizer, evaluation, host) if it takes 40 % or more; else the run is balanced. Why
/// it is so, and what to change, say the rules of bottleneck_rules.hpp.
struct Bottleneck {
  Limit limit = Limit::balanced;
  Limit part = Limit::balanced;  // that takes `share`; the verdict, unless its cause lies elsewhere
  std::string cause;  // of the rule that holds: "few_workers"; empty: nothing was measured
  double share = 0;   // of the wall time, 0 to 1; of a busy machine: of the cores' time
  Gain gain = {};     // of the advice; nothing is promised below its low end
  /// A factor: wall time over the wall time without all waits and overhead.
  double without_waits = 1;
  std::vector<SettingCheck> checks = {};  // batch size, threads, precision and anomaly checks
  std::optional<PerfectLoader> perfect_loader = {};  // absent: no batch was counted
  Next next = Next::tune;  // the kind of command that follows where no setting is proposed
  std::string
      setting;  // an override that may help and that the run would accept; empty if none is known
  std::string diagnosis;  // what the cause means
  std::string
      advice;  // one sentence with the setting; it is a proposal to be measured, never a promise
  std::vector<Evidence> evidence = {};
  /// Of a busy machine: the verdict on the same times if it were quiet. Empty or one.
  std::vector<Bottleneck> otherwise = {};
};
Bottleneck find_bottleneck(const events::Timing& timing, const BottleneckContext& context);

/// "a perfect loader would give 1.13x ..."; below 1.05x also that loading is not worth more work.
std::string text_of(const PerfectLoader& perfect);

/// {verdict, share, headroom, gain, advice, cause, diagnosis, setting, checks, evidence,
/// perfect_loader, otherwise} of result.json. `headroom` is the upper end of the gain; null:
/// unknown.
Json to_json(const Bottleneck& bottleneck);

}  // namespace trainctl::report
