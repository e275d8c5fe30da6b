#pragma once

#include "base/files.hpp"
#include "events/heartbeat.hpp"
#include "events/pipe.hpp"
#include "launch/child.hpp"
#include "launch/pulse.hpp"
#include "launch/stacks.hpp"
#include "launch/verdict.hpp"

#include <poll.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::launch {

/// One worker process as its supervisor sees it. Killed, with its process group, and reaped at the
/// end of its life.
class Rank {
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
  /// Step and phase of its end are those of now, though it may get on once it is asked for its
  /// stacks.
  void keep_place();
  /// A rule was broken: its end is a failure for this reason, unless it has given one itself.
  void blame(Report report, int round);
  /// Looks at the shared page.
  void feel_pulse(double now) { pulse_.see(page_.get(), now); }
  /// For how long the page has not moved, where that is too long.
  [[nodiscard]] std::optional<Silence> silence(double now) const;
  /// The same of a process that a signal has stopped: since its last stamp, however long that is.
  [[nodiscard]] std::optional<Silence> stopped(double now) const;
  /// It waits for the others, which is no fault of its own.
  [[nodiscard]] bool waits_for_others() const { return page_.get().collective().under_way; }
  /// It takes steps, and waits for nobody.
  [[nodiscard]] bool is_at_work() const {
    return alive_ && !end_.finished && takes_steps(pulse_.phase()) && !waits_for_others();
  }
  /// What it would be blamed for if it hung.
  [[nodiscard]] Silence standstill(double now) const;
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

  [[nodiscard]] bool is_alive() const { return alive_; }
  [[nodiscard]] bool said_hello() const { return said_hello_; }
  [[nodiscard]] bool said_finished() const { return end_.finished; }
  /// It has failed, though its process may still be there.
  [[nodiscard]] bool has_failed() const {
    return end_.report.has_value() || (!alive_ && is_failure(end_));
  }
  /// Its end so far; step and phase from the shared page.
  [[nodiscard]] RankEnd end() const;
  [[nodiscard]] long peak_rss_kib() const { return peak_rss_kib_; }
  /// To ask its threads by, while it is alive.
  [[nodiscard]] StackSource stack_source() const { return {end_.rank, end_.pid, stacks_.get()}; }

 private:
  events::LineReader::State read_once(const EventHandler& on_event, int round);
  void take_event(const events::Event& event, int round);
  void note_end(int status);
  [[nodiscard]] bool is_dead_already() const;

  events::HeartbeatPage page_;
  Pulse pulse_;
  Fd events_;
  Fd stacks_;
  Fd pidfd_;
  events::LineReader lines_;
  RankEnd end_;
  bool alive_ = true;
  bool said_hello_ = false;
  bool is_leaving_ = false;  // it said Failed
  bool keeps_place_ = false;
  long peak_rss_kib_ = 0;
  std::int64_t told_step_ = 0;
  events::Phase told_phase_ = events::Phase::startup;
};

}  // namespace trainctl::launch
