#pragma once

#include "base/files.hpp"
#include "events/heartbeat.hpp"
#include "events/pipe.hpp"
#include "events/records.hpp"
#include "launch/nodes/node_link.hpp"
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
  void freeze_position();
  /// Records that the rank broke a rule: its end is a failure for this reason, unless it has
  /// reported a reason itself.
  void mark_failed(FailureReport report, int round);
  void poll_heartbeat(double now) { monitor_.update(heartbeat_, now); }
  /// Returns the time without progress, if it exceeds the limit.
  [[nodiscard]] std::optional<Stall> stall(double now) const;
  /// Returns the time since the last heartbeat if a signal has stopped the process, for any length.
  [[nodiscard]] std::optional<Stall> stall_if_stopped(double now) const;
  /// Returns the stall to report if this rank causes a hang.
  [[nodiscard]] Stall current_stall(double now) const;
  /// Returns whether the rank starts, loads or takes steps, and does not wait for other ranks.
  [[nodiscard]] bool is_busy() const {
    const events::Phase phase = monitor_.phase();
    return alive_ && !end_.finished && (takes_steps(phase) || may_load(phase)) &&
           !heartbeat_.collective().in_progress;
  }
  /// Returns whether it saves or loads, so that ranks that take steps may be waiting for it.
  [[nodiscard]] bool is_between_steps() const {
    return alive_ && !end_.finished && !takes_steps(monitor_.phase());
  }
  [[nodiscard]] bool is_saving() const {
    return alive_ && monitor_.phase() == events::Phase::checkpoint;
  }
  [[nodiscard]] const HeartbeatMonitor& monitor() const { return monitor_; }
  /// Sets the hint to report if the rank was killed by SIGKILL for an unknown reason.
  void set_memory_hint(std::string hint) { end_.memory_hint = std::move(hint); }

  [[nodiscard]] bool is_marked_failed() const { return is_marked_failed_; }
  [[nodiscard]] int number() const { return end_.rank; }
  [[nodiscard]] bool is_alive() const { return alive_; }
  [[nodiscard]] bool has_sent_hello() const { return has_sent_hello_; }
  [[nodiscard]] bool has_finished() const { return end_.finished; }
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

  void handle_event(const events::Event& event, int round);
  void start() { alive_ = was_started_ = true; }
  /// Returns whether a signal has stopped the process, if that is visible from here.
  [[nodiscard]] virtual bool is_stopped() const { return false; }
  /// Records that the process has ended; `end_` says how.
  void mark_exited(int round);
  /// Keeps the step and phase of `end_`.
  void freeze_reported_position() { position_is_frozen_ = true; }

  RankEnd end_;
  bool is_exiting_ = false;        // it has reported Failed
  bool is_marked_failed_ = false;  // later reports of the rank are ignored

 private:
  const events::Heartbeat& heartbeat_;
  HeartbeatMonitor monitor_;
  bool alive_ = false;
  bool was_started_ = false;
  bool has_sent_hello_ = false;
  bool position_is_frozen_ = false;
  std::int64_t reported_step_ = 0;
  events::Phase reported_phase_ = events::Phase::startup;
};

/// A worker process of this supervisor. The destructor kills its process group and reaps it.
class Rank final : public RankState {
 public:
  struct StartOptions {
    const LaunchSpec& spec;
    sigset_t mask;  // signal mask of the child
  };

  /// Starts the process. `store` is the worker's end of its store socket, or invalid. Throws
  /// Error(resource).
  Rank(const StartOptions& start, int rank, const Fd& store);
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
  Rank(const StartOptions& start, int rank, const Fd& store, events::HeartbeatPage shared);
  events::LineReader::State read_once(const EventHandler& on_event, int round);
  void set_exit_status(int status);
  [[nodiscard]] bool is_stopped() const override;
  [[nodiscard]] bool has_exited() const;

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
  void mark_requested(const std::string& host);
  void add_event(const events::Event& event, int round);
  void set_heartbeat(const RankHeartbeat& heartbeat);
  void record_exit(const RankEnd& end, int round);
  /// Records that its node is lost or cannot take part.
  void mark_lost(const FailureReport& why, int round);

 private:
  RemoteRank(int rank, std::unique_ptr<events::Heartbeat> copy, std::optional<double> limit);

  std::unique_ptr<events::Heartbeat> copy_;  // copy of the rank's heartbeat page
};

}  // namespace trainctl::launch
