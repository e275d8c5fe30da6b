#pragma once

#include "report/diagnosis/bottleneck.hpp"

// The table of symptoms, causes and fixes from which both verdicts and
// docs/reference/bottlenecks.md are generated.

namespace trainctl::report {

inline constexpr double kNotableWait = 0.15;
inline constexpr double kNotableWork = 0.40;
inline constexpr double kNotableEvaluation = 1.0 / 3;

/// Returns the seconds of forward and backward passes. A step of a CUDA graph counts as a whole,
/// because its parts are not known.
inline double passes_s(const events::Timing& timing) {
  return timing.forward_s + timing.backward_s + timing.graph_s;
}

/// The measurements, and the part of the time that decides.
struct BottleneckInputs {
  const events::Timing& timing;
  const BottleneckContext& context;
  BottleneckKind part = BottleneckKind::balanced;
  double part_s = 0;

  /// Returns the samples that were trained on in that time; for a resumed epoch, the rest of its
  /// samples.
  [[nodiscard]] double samples() const;
  /// Returns the number of a rank's batches that the times cover; 0: unknown.
  [[nodiscard]] double batches() const;
  /// Returns the busy cores as a fraction of the cores that the loader and the step could use
  /// during data waits; nullopt without usage data.
  [[nodiscard]] std::optional<double> cpu_use() const;
  /// Returns whether a thread waited for a core for at least 25 % of the time, threads were
  /// preempted 100 times a second, or the CPU quota was used up.
  [[nodiscard]] bool cores_are_short() const;
};

/// A change of the experiment, "KEY=VALUE", with an explanation. Without a setting, it describes a
/// change outside the experiment.
struct Proposal {
  std::string setting;
  std::string sentence;
  Gain gain = {};
};

/// One row of the table: a symptom, its cause and its fix.
struct Rule {
  const char* cause;                   // its name: "few_workers"
  std::optional<BottleneckKind> part;  // the part that must take the time; absent: any
  const char* symptom;                 // condition in addition to the part, in words; empty: none
  const char* diagnosis;
  const char* fix;
  const char* key;                               // the key that the fix changes; empty: none
  bool (*holds)(const BottleneckInputs& facts);  // null: always
  std::vector<Proposal> (*propose)(const BottleneckInputs& facts);  // the best proposal first
  Next next = Next::tune;                      // the command to suggest if there is no setting
  std::optional<BottleneckKind> verdict = {};  // absent: the part's verdict
};

/// Returns the rules in the order of evaluation; the last rule of each part always matches.
std::span<const Rule> rules();

/// Returns the first rule that matches.
const Rule& rule_for(const BottleneckInputs& facts);

/// Returns the measured numbers; `in_summary` is set for those that support the verdict. Values
/// that the kernel or the driver did not report are omitted.
std::vector<Evidence> evidence_of(const BottleneckInputs& facts, const Rule& rule);

/// Returns docs/reference/bottlenecks.md, generated from the rules: how a verdict is reached, the
/// tuning decision tree and the table of symptoms.
std::string bottlenecks_page();

/// Returns the same table as a list of {part, cause, verdict, symptom, diagnosis, fix, key}.
Json bottlenecks_json();

}  // namespace trainctl::report

// Estimates of the gain of a change, as an interval. The upper end is a bound; a change whose
// effects are not fully measured has no upper end.

namespace trainctl::report::gains {

/// Returns the gain of a change whose effect on the rest of the run is unknown.
Gain unknown();
/// Returns the gain of saving at most that many seconds of the run.
Gain without(const BottleneckInputs& facts, double seconds);
/// Returns the gain if batches are always ready, in training and validation. It has no upper end if
/// loader threads may take cores from the steps and no batch was replayed.
Gain of_loading(const BottleneckInputs& facts);
/// Returns the gain of a batch `factor` times as large: at most a factor of `factor`.
Gain of_larger_batch(const BottleneckInputs& facts, double factor);
/// Returns the gain of another number of threads per rank.
Gain of_threads(const BottleneckInputs& facts, int threads);
/// Returns the gain of turning off trainer.detect_anomaly.
Gain of_no_anomaly_checks(const BottleneckInputs& facts);
/// Returns the gain of trainer.precision=bf16-mixed.
Gain of_bf16(const BottleneckInputs& facts);
/// Returns the gain of fewer checkpoints or none. It has no upper end if they are written while
/// steps need the same cores.
Gain of_fewer_checkpoints(const BottleneckInputs& facts);
/// Returns the gain of validating after every second epoch instead of every epoch, and so on.
Gain of_less_validation(const BottleneckInputs& facts);

/// Returns for batch size, threads, precision and anomaly checks how it was tested whether another
/// value helps.
std::vector<SettingCheck> checks_of(const BottleneckInputs& facts);

/// Returns the factor by which the batch may grow: 8, 4 or 2 if an epoch still has enough steps; 0
/// if it cannot grow.
int batch_factor(const BottleneckInputs& facts);

/// Returns whether the fixed cost per step is probably large: a step takes less than a millisecond,
/// or its batch has fewer than eight rows.
bool has_tiny_steps(const BottleneckInputs& facts);

/// A replayed setting is proposed if the low end of its gain is at least this.
inline constexpr double kWorthProposing = 1.15;
/// A larger batch changes the training, so it must gain more.
inline constexpr double kWorthLargerBatch = 1.3;

}  // namespace trainctl::report::gains

// The proposals of the rules for given measurements. Each list is in order of preference; a change
// that the experiment does not accept is skipped.

namespace trainctl::report::fixes {

using Proposals = std::vector<Proposal>;

Proposals free_cores(const BottleneckInputs& facts);
Proposals inspect_rank(const BottleneckInputs& facts);
Proposals cool_gpu(const BottleneckInputs& facts);
/// Proposes the replayed number of threads, or else all cores.
Proposals other_threads(const BottleneckInputs& facts);
Proposals larger_steps(const BottleneckInputs& facts);
/// Names the settings that were not compared, without proposing one.
Proposals untried_settings(const BottleneckInputs& facts);
Proposals less_cache(const BottleneckInputs& facts);
Proposals fewer_threads(const BottleneckInputs& facts);
Proposals fewer_workers(const BottleneckInputs& facts);
/// Proposes as many workers as the step can use, at most one per core.
Proposals more_workers(const BottleneckInputs& facts);
/// Proposes more workers than cores, because waiting workers overlap.
Proposals waiting_workers(const BottleneckInputs& facts);
/// Proposes workers for all ranks by the rank that the others wait for; more than its cores if
/// these are idle.
Proposals workers_of_straggler(const BottleneckInputs& facts);
Proposals one_thread(const BottleneckInputs& facts);
Proposals read_less(const BottleneckInputs& facts);
Proposals cache_decoded(const BottleneckInputs& facts);
Proposals pin(const BottleneckInputs& facts);
Proposals keep_on_device(const BottleneckInputs& facts);
Proposals smaller_buckets(const BottleneckInputs& facts);
Proposals exchange_less(const BottleneckInputs& facts);
Proposals save_async(const BottleneckInputs& facts);
Proposals save_less(const BottleneckInputs& facts);
Proposals validate_less(const BottleneckInputs& facts);
Proposals no_forced_sync(const BottleneckInputs& facts);
Proposals record_steps(const BottleneckInputs& facts);
Proposals no_anomaly_checks(const BottleneckInputs& facts);
Proposals half_precision(const BottleneckInputs& facts);
Proposals fill_device(const BottleneckInputs& facts);
Proposals fewer_updates(const BottleneckInputs& facts);
Proposals more_devices(const BottleneckInputs& facts);

}  // namespace trainctl::report::fixes
