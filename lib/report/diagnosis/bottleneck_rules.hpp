#pragma once

#include "report/diagnosis/bottleneck.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

// Symptoms, what they mean and what to do: the one table that verdicts and docs/bottlenecks.md are
// made of.

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
  const char* cause;             // its name: "few_workers"
  std::optional<Limit> part;     // that must take the time; nothing: any
  std::optional<Limit> verdict;  // nothing: the part's
  const char* symptom;           // beside the part, in words; empty: none
  const char* diagnosis;
  const char* fix;
  const char* key;  // that the fix changes; empty: none
  bool (*holds)(const Facts& facts);
  std::vector<Proposal> (*propose)(const Facts& facts);  // the best first
  Next next = Next::tune;  // the command that follows where no setting is proposed
};

/// In the order in which they are asked; the last one of each part always holds.
std::span<const Rule> rules();

/// The first rule that holds.
const Rule& rule_for(const Facts& facts);

}  // namespace trainctl::report

// What was measured, against the bounds of the rules. Where something was not told its symptom does
// not hold.

namespace trainctl::report::symptoms {

bool always(const Facts& facts);
bool others_take_cores(const Facts& facts);
bool other_threads_gain(const Facts& facts);
bool larger_batch_gains(const Facts& facts);
bool bf16_gains(const Facts& facts);
bool memory_is_short(const Facts& facts);
bool threads_exceed_cores(const Facts& facts);
bool workers_exceed_cores(const Facts& facts);
bool quota_is_short(const Facts& facts);
bool threads_spin(const Facts& facts);
bool disk_is_slow(const Facts& facts);
bool source_sleeps(const Facts& facts);
bool has_no_workers(const Facts& facts);
bool has_few_workers(const Facts& facts);
bool may_pin(const Facts& facts);
bool straggler_loads(const Facts& facts);
bool has_straggler(const Facts& facts);
bool exchanges_late(const Facts& facts);
bool saves_in_the_step(const Facts& facts);
bool syncs_each_step(const Facts& facts);
bool launches_each_kernel(const Facts& facts);
bool gpu_is_throttled(const Facts& facts);
bool looks_for_anomalies(const Facts& facts);
bool computes_in_full(const Facts& facts);
bool is_on_gpu(const Facts& facts);

}  // namespace trainctl::report::symptoms
