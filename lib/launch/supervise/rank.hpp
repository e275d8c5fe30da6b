#pragma once

#include "base/files.hpp"
#include "events/heartbeat.hpp"
#include "events/pipe.hpp"
#include "launch/process/child.hpp"
#include "launch/process/stacks.hpp"
#include "launch/supervise/rank_state.hpp"

#include <poll.h>

#include <vector>

namespace trainctl::launch {

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

}  // namespace trainctl::launch
