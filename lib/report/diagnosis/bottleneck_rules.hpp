#pragma once

#include "base/json.hpp"
#include "report/diagnosis/bottleneck.hpp"

// Symptoms, what they mean and what to do: the one table that verdicts and
// docs/reference/bottlenecks.md are made of.

namespace trainctl::report {

inline constexpr double kNotableWait = 0.15;
inline constexpr double kNotableWork = 0.40;
inline constexpr double kNotableEvaluation = 1.0 / 3;

/// What was measured, and the part of the time that decides.
struct Facts {
  const events::Timing& timing;
  const BottleneckContext& context;
  Limit part = Limit::balanced;
  double part_s = 0;

  /// That were trained on in that time: of an epoch that was gone on with, the rest.
  [[nodiscard]] double samples() const;
  /// Batches of a rank that the times are of; 0: not known.
  [[nodiscard]] double batches() const;
  /// Cores that were busy, as a share of those that the loader and the step could have kept busy
  /// while batches were waited for; nothing without usage.
  [[nodiscard]] std::optional<double> cpu_use() const;
  /// At least 25 % of the time some thread waited for a core, or threads lost theirs 100 times a
  /// second, or the CPU quota was used up.
  [[nodiscard]] bool cores_are_short() const;
};

/// A change of the experiment, "KEY=VALUE", and what to know of it. Without a setting: what can be
/// done beside the experiment.
struct Proposal {
  std::string setting;
  std::string sentence;
  Gain gain = {};
};

struct Rule {
  const char* cause;          // its name: "few_workers"
  std::optional<Limit> part;  // that must take the time; nothing: any
  const char* symptom;        // beside the part, in words; empty: none
  const char* diagnosis;
  const char* fix;
  const char* key;  // that the fix changes; empty: none
  bool (*holds)(const Facts& facts);
  std::vector<Proposal> (*propose)(const Facts& facts);  // the best first
  Next next = Next::tune;             // the command that follows where no setting is proposed
  std::optional<Limit> verdict = {};  // nothing: the part's
};

/// In the order in which they are asked; the last one of each part always holds.
std::span<const Rule> rules();

/// The first rule that holds.
const Rule& rule_for(const Facts& facts);

/// The numbers that were measured; those that the verdict rests on `tell`. Nothing that the kernel
/// or the driver did not say.
std::vector<Evidence> evidence_of(const Facts& facts, const Rule& rule);

/// docs/reference/bottlenecks.md: how a verdict comes about, the tuning decision tree and the table
/// of symptoms, made of the rules.
std::string bottlenecks_page();

/// The same table: {part, cause, verdict, symptom, diagnosis, fix, key} each.
Json bottlenecks_json();

}  // namespace trainctl::report

// How much a change can gain, as an interval. The upper end is a bound: a change that affects more
// than can be accounted for has none.

namespace trainctl::report::gains {

/// Of a change whose effect on the rest of the run is not known.
Gain unknown();
/// Without so many seconds of the run: at most that.
Gain without(const Facts& facts, double seconds);
/// Batches that are always there: no waits, in the validation neither. Without a bound where loader
/// threads may take cores from the steps and no batch was replayed.
Gain of_loading(const Facts& facts);
/// Of a batch `factor` times as large: at most that many times as fast.
Gain of_larger_batch(const Facts& facts, double factor);
/// Of another number of threads for each rank.
Gain of_threads(const Facts& facts, int threads);
Gain of_no_anomaly_checks(const Facts& facts);
Gain of_bf16(const Facts& facts);
/// Of fewer checkpoints or none. Without a bound where they are written next to steps that want the
/// same cores.
Gain of_fewer_checkpoints(const Facts& facts);
/// Of validating after every second epoch in place of every epoch, and so on.
Gain of_less_validation(const Facts& facts);

/// Batch size, threads, precision and anomaly checks: what was done to find out whether another
/// value helps.
std::vector<SettingCheck> checks_of(const Facts& facts);

/// The factor by which the batch may grow for what was measured: 8, 4 or 2 where that many steps
/// are left in an epoch; 0: it cannot.
int batch_factor(const Facts& facts);

/// Whether what each step costs, whatever its batch, is likely a large part of it: it takes less
/// than a millisecond, or its batch has fewer than eight rows.
bool has_tiny_steps(const Facts& facts);

/// The low end of the gain from which on a replayed setting is proposed.
inline constexpr double kWorthProposing = 1.15;
/// A larger batch changes the training, and has to gain more.
inline constexpr double kWorthLargerBatch = 1.3;

}  // namespace trainctl::report::gains

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
Proposals no_anomaly_checks(const Facts& facts);
Proposals half_precision(const Facts& facts);
Proposals fill_device(const Facts& facts);
Proposals fewer_updates(const Facts& facts);
Proposals more_devices(const Facts& facts);

}  // namespace trainctl::report::fixes
