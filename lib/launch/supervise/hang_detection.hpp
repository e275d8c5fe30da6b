#pragma once

#include "events/heartbeat.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>

namespace trainctl::launch {

class RankState;

/// A rank that has made no progress for longer than its limit.
struct Stall {
  double seconds = 0;
  double limit_s = 0;
  events::Phase phase = events::Phase::startup;
  events::Collective collective = {};
  bool stopped = false;  // by a signal, as by SIGSTOP
};

/// Returns true for training and validation, the phases with a heartbeat for every step.
bool takes_steps(events::Phase phase);

/// Returns true for the phases in which data is loaded before a step.
bool may_load(events::Phase phase);

/// Returns the message: "it has made no progress for 1 min 01 s in training; the limit is ...; it
/// waits for other ranks in the collective 'sum of the losses'".
std::string describe_stall(const Stall& stall);

/// Detects from the heartbeats in a rank's shared page whether the rank makes progress. Training
/// and validation have the shortest limit. Saving and the end have ten minutes, or the step limit
/// if it was set to more. The start has ten minutes too, or ten times the step limit if it was set
/// to less than a minute. The time until the first batch of an epoch or a validation has ten
/// minutes, or ten times its longest duration so far if that is more. In these two phases data that
/// is read counts as progress, so loading may take any time; a rank that does not count it is not
/// watched. (Until its Hello a rank has LaunchSpec::init_timeout_s.) Times are those of the
/// supervisor's clock, so that a supervisor that was itself stopped reports no rank.
class HeartbeatMonitor {
 public:
  /// `hang_timeout_s` is the limit of a step. If absent, the limit is a minute, or ten times the
  /// median time between two heartbeats if that is more; the time before the first one counts until
  /// others are known.
  explicit HeartbeatMonitor(std::optional<double> hang_timeout_s = {})
      : hang_timeout_s_(hang_timeout_s) {}

  /// Reads the shared page. Must be called a few times per second.
  void update(const events::Heartbeat& page, double now);
  /// Returns the time since the last progress, if it exceeds the limit.
  [[nodiscard]] std::optional<Stall> stall(double now) const;
  [[nodiscard]] events::Phase phase() const { return phase_; }
  [[nodiscard]] double stalled_s(double now) const;
  /// Returns the time at which the last new heartbeat was seen.
  [[nodiscard]] double heartbeat_at() const { return heartbeat_at_; }
  /// Returns the median time between two heartbeats in training and validation; 0 if not known.
  [[nodiscard]] double step_s() const;
  /// Returns whether a step has started, so that there may be progress to save.
  [[nodiscard]] bool has_stepped() const { return has_stepped_; }
  [[nodiscard]] double longest_save_s() const { return longest_save_s_; }
  /// Returns the limit of the current phase; empty if the phase is not watched.
  [[nodiscard]] std::optional<double> limit_s() const;
  /// Returns the limit of a step, which also applies to a stopped process in any phase.
  [[nodiscard]] double step_limit_s() const;

 private:
  std::optional<double> hang_timeout_s_;
  std::int64_t stamp_ = 0;
  std::int64_t loaded_ = 0;
  events::Phase phase_ = events::Phase::startup;
  double heartbeat_at_ = 0;
  double loaded_at_ = 0;  // when loaded_ last increased
  bool has_stepped_ = false;
  double save_began_at_ = 0;
  double longest_save_s_ = 0;
  double load_began_at_ = 0;
  double longest_load_s_ = 0;
  std::deque<double> intervals_;  // between heartbeats in training and validation
};

/// The rank that causes a hang, and how long it has stalled.
struct HungRank {
  RankState* rank = nullptr;
  Stall stall;
};

/// Selects the rank that causes a hang. Ranks wait for each other, so one that hangs stalls all:
/// the one that has stalled longest is selected, except ranks that may wait for one that saves
/// or loads, or wait in a collective that another rank has not entered. While ranks are stopped by
/// a signal, only these count, and the one that exceeds its limit most is selected. Empty if no
/// rank exceeds its limit.
std::optional<HungRank> find_hung_rank(std::span<RankState* const> ranks, double now);

}  // namespace trainctl::launch
