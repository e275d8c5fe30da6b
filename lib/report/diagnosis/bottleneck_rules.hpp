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
