#pragma once

#include "events/heartbeat.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>

namespace trainctl::launch {

class RankState;

/// A rank that has not moved for longer than it may.
struct Silence {
  double seconds = 0;
  double limit_s = 0;
  events::Phase phase = events::Phase::startup;
  events::Collective collective = {};
  bool stopped = false;  // by a signal, as SIGSTOP does
};

/// Training and validation: the phases with a stamp for every step.
bool takes_steps(events::Phase phase);

/// The phases in which data is loaded ahead of a step.
bool may_load(events::Phase phase);

/// "it has shown no sign of life for 1 min 01 s in training, where the limit is ...; it waits for
/// the other ranks in 'sum of the losses'"
std::string sentence_of(const Silence& silence);

/// Whether a rank still moves, from the stamps of its shared page. Training and validation have the
/// shortest limit; saving and the end have ten minutes, or that limit if it was set to more. So
/// has the start, or ten times the limit of a step if that was set to less than a minute, and so
/// has the time till the first batch of an epoch or a validation (there ten times
/// the longest so far if that is more), but what is read and made of the data is a sign of life,
/// too: that may go on as long as it likes. A rank that does not count it is not watched there.
/// (Until it says Hello a rank has LaunchSpec::init_timeout_s.) Times are the supervisor's own, so
/// that one that was stopped itself blames nobody.
class Pulse {
 public:
  /// `hang_timeout_s`: the limit of a step; absent: a minute, or ten times what passes between two
  /// stamps if that is more; what passes before the first counts till there are others.
  explicit Pulse(std::optional<double> hang_timeout_s = {}) : hang_timeout_s_(hang_timeout_s) {}

  /// To be called a few times a second.
  void see(const events::Heartbeat& page, double now);
  /// Since the last new stamp, where that is more than the limit.
  [[nodiscard]] std::optional<Silence> silence(double now) const;
  [[nodiscard]] events::Phase phase() const { return phase_; }
  /// Since the last sign of life.
  [[nodiscard]] double silent_s(double now) const;
  /// When the last new stamp was seen.
  [[nodiscard]] double seen_at() const { return seen_at_; }
  /// Between two stamps in training and validation, the median; 0: not known yet.
  [[nodiscard]] double step_s() const;
  /// There has been a step: something may be worth saving.
  [[nodiscard]] bool has_stepped() const { return has_stepped_; }
  /// The longest save so far; 0: there was none.
  [[nodiscard]] double longest_save_s() const { return longest_save_s_; }
  /// Of that phase; nothing: it is not watched.
  [[nodiscard]] std::optional<double> limit_s() const;
  /// Of a step, and of a process that is stopped, whatever its phase.
  [[nodiscard]] double step_limit_s() const;

 private:
  std::optional<double> hang_timeout_s_;
  std::int64_t stamp_ = 0;
  std::int64_t loaded_ = 0;
  events::Phase phase_ = events::Phase::startup;
  double seen_at_ = 0;
  double loaded_at_ = 0;  // the last growth was seen
  bool has_stepped_ = false;
  double saves_since_ = 0;
  double longest_save_s_ = 0;
  double loads_since_ = 0;
  double longest_load_s_ = 0;
  std::deque<double> gaps_;  // within training and validation
};

/// Who hangs, and for how long.
struct SilentRank {
  RankState* rank = nullptr;
  Silence silence;
};

/// Ranks wait for each other, so one that hangs silences all: the one that fell silent first is to
/// blame, but none that may be waiting for one that saves or loads, or waits in a collective to
/// which another has not come. While a signal has stopped one, no other is to blame, and of several
/// the one that has stood longest past its limit. Nothing where nobody has been silent for too
/// long.
std::optional<SilentRank> silent_rank(std::span<RankState* const> ranks, double now);

}  // namespace trainctl::launch
