#pragma once

#include "base/clock.hpp"
#include "launch/rendezvous/store.hpp"
#include "launch/supervise/failure_evidence.hpp"
#include "launch/supervise/rank.hpp"
#include "launch/supervise/supervisor.hpp"

#include <poll.h>

#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::launch {

/// Gives the end of a store connection that a rank of this node inherits. Throws Error.
using ConnectRank = std::function<Fd(int rank)>;

/// The ranks of this node: starts and owns their processes. At its end none is left.
class LocalRanks {
 public:
  LocalRanks(const LaunchSpec& spec, const Clock& clock) : spec_(spec), clock_(clock) {}

  /// Starts them with the signal mask.
  void start(const sigset_t& mask, const ConnectRank& connect);
  void append_to(std::vector<pollfd>& polls) const;
  void read_events(const EventHandler& on_event, int round);
  /// Calls `on_end` for each process that has gone since the last call.
  void reap(const EventHandler& on_event, int round, const std::function<void(Rank& rank)>& on_end);
  void terminate();
  void kill();
  /// Kills those that have said Finished and do not end.
  void kill_finished();
  [[nodiscard]] bool none_alive() const;
  /// Those alive whose threads can be asked for their stacks; `first`, if it is one, comes first.
  [[nodiscard]] std::vector<StackSource> stack_sources(const RankState* first = nullptr) const;
  [[nodiscard]] const std::vector<std::unique_ptr<Rank>>& ranks() const { return ranks_; }

 private:
  const LaunchSpec& spec_;
  const Clock& clock_;
  MemoryWatch memory_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<const Rank*, double> finished_at_;
};

/// All ranks of a job: those of this node, and those of other nodes as their supervisors tell of
/// them. What is asked of all reaches both. At its end none is left, on any node.
class JobRanks {
 public:
  JobRanks(const LaunchSpec& spec, const Clock& clock)
      : spec_(spec), clock_(clock), here_(spec, clock) {}
  ~JobRanks();
  JobRanks(const JobRanks&) = delete;
  JobRanks& operator=(const JobRanks&) = delete;

  /// Starts those of this node, with the signal mask, as clients of the store.
  void start(const sigset_t& mask, StoreServer& store);

  /// Those of this node.
  [[nodiscard]] LocalRanks& here() { return here_; }
  /// By number, those of other nodes last.
  [[nodiscard]] std::span<RankState* const> all() const { return all_; }
  [[nodiscard]] bool none_alive() const;
  /// What a stop signal leaves them, in seconds, see LaunchSpec::stop_grace_s.
  [[nodiscard]] double allowance_s() const;
  /// Which nodes have not come, and how they do; empty: all are here.
  [[nodiscard]] std::string start_hint() const;

  /// `signal`: what the job was asked by; 0: a rank has failed.
  void terminate(int signal);
  void kill();

  /// Writes the stacks of all of this node, and asks the other nodes for theirs; returns what is
  /// said of those of `blamed`.
  [[nodiscard]] std::string write_stacks(const RankState& blamed);
  /// The rank of another node that is to blame, once write_stacks() was asked for it.
  [[nodiscard]] std::optional<int> asked_for_stacks() const { return asked_for_stacks_; }

 private:
  const LaunchSpec& spec_;
  const Clock& clock_;
  LocalRanks here_;
  std::vector<RankState*> all_;
  std::optional<int> asked_for_stacks_;
};

/// All that a supervisor knows when no rank is left.
struct JobState {
  const LaunchSpec& spec;
  std::span<RankState* const> ranks;  // those of other nodes included
  std::optional<int> stop_signal;
  std::optional<int> asked_for_stacks;  // the rank of another node that is to blame for a hang
};

/// Judges the end of the job; what ranks have left in the log folder speaks for them: a last word
/// where nothing else tells the reason, stacks, the tail of a log.
Outcome conclude(const JobState& job);

}  // namespace trainctl::launch
