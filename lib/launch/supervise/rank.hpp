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

/// What is known of a rank, wherever it runs: a process of this supervisor (Rank) or one of another
/// node (RemoteRank).
class RankState {
 public:
  RankState(const RankState&) = delete;
  RankState& operator=(const RankState&) = delete;

  /// Step and phase of its end are those of now, though it may get on once it is asked for its
  /// stacks.
  void keep_place();
  /// A rule was broken: its end is a failure for this reason, unless it has given one itself.
  void blame(Report report, int round);
  /// Looks at the shared page.
  void feel_pulse(double now) { pulse_.see(stamps_, now); }
  /// For how long the page has not moved, where that is too long.
  [[nodiscard]] std::optional<Silence> silence(double now) const;
  /// The same of a process that a signal has stopped: since its last stamp, however long that is.
  [[nodiscard]] std::optional<Silence> stopped(double now) const;
  /// What it would be blamed for if it hung.
  [[nodiscard]] Silence standstill(double now) const;
  /// Returns whether it starts, loads or takes steps, and waits for no other rank.
  [[nodiscard]] bool is_busy() const {
    const events::Phase phase = pulse_.phase();
    return alive_ && !end_.finished && (takes_steps(phase) || may_load(phase)) &&
           !stamps_.collective().under_way;
  }
  /// It saves or loads: others that take steps may wait for it.
  [[nodiscard]] bool is_between_steps() const {
    return alive_ && !end_.finished && !takes_steps(pulse_.phase());
  }
  [[nodiscard]] bool is_saving() const {
    return alive_ && pulse_.phase() == events::Phase::checkpoint;
  }
  [[nodiscard]] const Pulse& pulse() const { return pulse_; }
  /// Said beside a SIGKILL that nobody claims.
  void hint_at_memory(std::string hint) { end_.memory_hint = std::move(hint); }

  [[nodiscard]] bool is_blamed() const { return is_blamed_; }
  [[nodiscard]] int number() const { return end_.rank; }
  [[nodiscard]] bool is_alive() const { return alive_; }
  [[nodiscard]] bool said_hello() const { return said_hello_; }
  [[nodiscard]] bool said_finished() const { return end_.finished; }
  /// It has failed, though its process may still be there.
  [[nodiscard]] bool has_failed() const {
    return end_.report.has_value() || (!alive_ && was_started_ && is_failure(end_));
  }
  /// Its end tells something: it has run, or it is blamed for not running.
  [[nodiscard]] bool has_end() const { return was_started_ || end_.report.has_value(); }
  /// Its end so far; step and phase from the shared page.
  [[nodiscard]] RankEnd end() const;

 protected:
  /// `page` outlives it.
  RankState(int rank, const events::Heartbeat& page, std::optional<double> hang_timeout_s);
  ~RankState() = default;

  void take_event(const events::Event& event, int round);
  void start() { alive_ = was_started_ = true; }
  /// A signal has stopped its process, as far as that can be seen from here.
  [[nodiscard]] virtual bool is_stopped() const { return false; }
  /// Its process has ended, as the end tells.
  void bury(int round);
  /// Step and phase are those that the end has.
  void keep_told_place() { keeps_place_ = true; }

  RankEnd end_;
  bool is_leaving_ = false;  // it said Failed
  bool is_blamed_ = false;   // nothing that it says counts any more

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

/// One worker process as its supervisor sees it. Killed, with its process group, and reaped at the
/// end of its life.
class Rank final : public RankState {
 public:
  /// What every rank is started from.
  struct Start {
    const LaunchSpec& spec;
    sigset_t mask;  // of the child
  };

  /// Starts the process. `store` is the worker's end of its store socket, or invalid. Throws
  /// Error(resource).
  Rank(const Start& start, int rank, const Fd& store);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void append_to(std::vector<pollfd>& polls) const;
  /// One bounded read of the event pipe. `round` counts the turns of the watch loop.
  void read_events(const EventHandler& on_event, int round);
  /// Notices the end of the process, reads what it still said, then reaps it.
  void reap(const EventHandler& on_event, int round);

  void terminate();  // SIGTERM, once, unless it is ending by itself
  void kill();       // SIGKILL to its whole process group
  [[nodiscard]] const events::Heartbeat& page() const { return page_.get(); }
  [[nodiscard]] long peak_rss_kib() const { return peak_rss_kib_; }
  /// To ask its threads by, while it is alive.
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

/// A rank of another node as the head knows it: by what its supervisor tells.
class RemoteRank final : public RankState {
 public:
  RemoteRank(int rank, std::optional<double> hang_timeout_s);

  /// Its node is told to start it.
  void begin(const std::string& host);
  void take(const events::Event& event, int round);
  void stamp(const RankPulse& pulse);
  /// It has ended.
  void bury_as(const RankEnd& end, int round);
  /// Its node is gone, or cannot take part.
  void lose(const Report& why, int round);

 private:
  RemoteRank(int rank, std::unique_ptr<events::Heartbeat> copy, std::optional<double> limit);

  std::unique_ptr<events::Heartbeat> copy_;  // of its page
};

}  // namespace trainctl::launch
