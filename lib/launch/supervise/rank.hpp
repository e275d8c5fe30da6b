#pragma once

#include "base/files.hpp"
#include "events/heartbeat.hpp"
#include "events/pipe.hpp"
#include "events/records.hpp"
#include "launch/nodes/node_link.hpp"
#include "launch/process/child.hpp"
#include "launch/process/stacks.hpp"
#include "launch/supervise/hang_detection.hpp"
#include "launch/supervise/verdict.hpp"

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::launch {

/// The state of a rank that is either a process of this supervisor (Rank) or a process of another
/// node (RemoteRank).
class RankState {
 public:
  RankState(const RankState&) = delete;
  RankState& operator=(const RankState&) = delete;

  /// Fixes the step and phase of its end now, since asking for stacks may let the rank continue.
  void keep_place();
  /// Records that the rank broke a rule: its end is a failure for this reason, unless it has
  /// reported a reason itself.
  void blame(Report report, int round);
  /// Reads the heartbeats of the shared page.
  void feel_pulse(double now) { pulse_.see(stamps_, now); }
  /// Returns the time without progress, if it exceeds the limit.
  [[nodiscard]] std::optional<Silence> silence(double now) const;
  /// Returns the time since the last heartbeat if a signal has stopped the process, for any length.
  [[nodiscard]] std::optional<Silence> stopped(double now) const;
  /// Returns the silence to report if this rank causes a hang.
  [[nodiscard]] Silence standstill(double now) const;
  /// Returns whether the rank starts, loads or takes steps, and does not wait for other ranks.
  [[nodiscard]] bool is_busy() const {
    const events::Phase phase = pulse_.phase();
    return alive_ && !end_.finished && (takes_steps(phase) || may_load(phase)) &&
           !stamps_.collective().under_way;
  }
  /// Returns whether it saves or loads, so that ranks that take steps may be waiting for it.
  [[nodiscard]] bool is_between_steps() const {
    return alive_ && !end_.finished && !takes_steps(pulse_.phase());
  }
  [[nodiscard]] bool is_saving() const {
    return alive_ && pulse_.phase() == events::Phase::checkpoint;
  }
  [[nodiscard]] const Pulse& pulse() const { return pulse_; }
  /// Sets the hint to report if the rank was killed by SIGKILL for an unknown reason.
  void hint_at_memory(std::string hint) { end_.memory_hint = std::move(hint); }

  [[nodiscard]] bool is_blamed() const { return is_blamed_; }
  [[nodiscard]] int number() const { return end_.rank; }
  [[nodiscard]] bool is_alive() const { return alive_; }
  [[nodiscard]] bool said_hello() const { return said_hello_; }
  [[nodiscard]] bool said_finished() const { return end_.finished; }
  /// Returns whether the rank has failed; its process may still exist.
  [[nodiscard]] bool has_failed() const {
    return end_.report.has_value() || (!alive_ && was_started_ && is_failure(end_));
  }
  /// Returns whether the end matters: the rank was started, or has failed without a start.
  [[nodiscard]] bool has_end() const { return was_started_ || end_.report.has_value(); }
  /// Returns its end so far; step and phase come from the shared page.
  [[nodiscard]] RankEnd end() const;

 protected:
  /// `page` must outlive the object.
  RankState(int rank, const events::Heartbeat& page, std::optional<double> hang_timeout_s);
  ~RankState() = default;

  void take_event(const events::Event& event, int round);
  void start() { alive_ = was_started_ = true; }
  /// Returns whether a signal has stopped the process, if that is visible from here.
  [[nodiscard]] virtual bool is_stopped() const { return false; }
  /// Records that the process has ended; `end_` says how.
  void bury(int round);
  /// Keeps the step and phase of `end_`.
  void keep_told_place() { keeps_place_ = true; }

  RankEnd end_;
  bool is_leaving_ = false;  // it has reported Failed
  bool is_blamed_ = false;   // later reports of the rank are ignored

 private:
  const events::Heartbeat& stamps_;
  Pulse pulse_;
  bool alive_ = false;
  bool was_started_ = false;
  bool said_hello_ = false;
  bool keeps_place_ = false;
  std::int64_t told_step_ = 0;
  events::Phase told_phase_ = events::Phase::startup;
};

/// A worker process of this supervisor. The destructor kills its process group and reaps it.
class Rank final : public RankState {
 public:
  /// The parameters that all ranks share.
  struct Start {
    const LaunchSpec& spec;
    sigset_t mask;  // signal mask of the child
  };

  /// Starts the process. `store` is the worker's end of its store socket, or invalid. Throws
  /// Error(resource).
  Rank(const Start& start, int rank, const Fd& store);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void append_to(std::vector<pollfd>& polls) const;
  /// Makes one bounded read of the event pipe. `round` counts the supervisor's iterations.
  void read_events(const EventHandler& on_event, int round);
  /// Checks whether the process has ended; if so, reads its remaining events and reaps it.
  void reap(const EventHandler& on_event, int round);

  void terminate();  // SIGTERM, once, unless it is exiting
  void kill();       // SIGKILL to its process group
  [[nodiscard]] const events::Heartbeat& page() const { return page_.get(); }
  [[nodiscard]] long peak_rss_kib() const { return peak_rss_kib_; }
  /// Returns how to ask its threads for stacks while it is alive.
  [[nodiscard]] StackSource stack_source() const { return {end_.rank, end_.pid, stacks_.get()}; }

 private:
  Rank(const Start& start, int rank, const Fd& store, events::HeartbeatPage shared);
  events::LineReader::State read_once(const EventHandler& on_event, int round);
  void note_end(int status);
  [[nodiscard]] bool is_stopped() const override;
  [[nodiscard]] bool is_dead_already() const;

  events::HeartbeatPage page_;
  Fd events_;
  Fd stacks_;
  Fd pidfd_;
  events::LineReader lines_;
  long peak_rss_kib_ = 0;
};

/// A rank of another node, as its supervisor reports it to the coordinator.
class RemoteRank final : public RankState {
 public:
  RemoteRank(int rank, std::optional<double> hang_timeout_s);

  /// Records that its node was asked to start it.
  void begin(const std::string& host);
  void take(const events::Event& event, int round);
  void stamp(const RankPulse& pulse);
  /// Records the end that its node reported.
  void bury_as(const RankEnd& end, int round);
  /// Records that its node is lost or cannot take part.
  void lose(const Report& why, int round);

 private:
  RemoteRank(int rank, std::unique_ptr<events::Heartbeat> copy, std::optional<double> limit);

  std::unique_ptr<events::Heartbeat> copy_;  // copy of the rank's heartbeat page
};

}  // namespace trainctl::launch
