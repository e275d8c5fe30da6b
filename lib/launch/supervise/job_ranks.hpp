#pragma once

#include "base/clock.hpp"
#include "launch/rendezvous/store.hpp"
#include "launch/supervise/rank.hpp"
#include "launch/supervise/supervisor.hpp"
#include "launch/supervise/verdict.hpp"

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

/// Returns the end of a store connection that a rank of this node inherits. Throws Error.
using ConnectRank = std::function<Fd(int rank)>;

/// Starts and owns the worker processes of this node. The destructor ends all of them.
class LocalRanks {
 public:
  LocalRanks(const LaunchSpec& spec, const Clock& clock) : spec_(spec), clock_(clock) {}

  void start(const sigset_t& mask, const ConnectRank& connect);
  void append_to(std::vector<pollfd>& polls) const;
  void read_events(const EventHandler& on_event, int round);
  /// Calls `on_end` for each process that has ended since the last call.
  void reap(const EventHandler& on_event, int round, const std::function<void(Rank& rank)>& on_end);
  void terminate();
  void kill();
  void kill_finished();
  [[nodiscard]] bool none_alive() const;
  /// Returns the running workers that can be asked for stacks; `first` comes first if it is a
  /// worker of this node.
  [[nodiscard]] std::vector<StackSource> stack_sources(const RankState* first = nullptr) const;
  [[nodiscard]] const std::vector<std::unique_ptr<Rank>>& ranks() const { return ranks_; }

 private:
  const LaunchSpec& spec_;
  const Clock& clock_;
  OomKillTracker memory_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<const Rank*, double> finished_at_;
};

/// All ranks of a job: the workers of this node and, as reported by their supervisors, those of
/// other nodes. The destructor ends all of them.
class JobRanks {
 public:
  JobRanks(const LaunchSpec& spec, const Clock& clock)
      : spec_(spec), clock_(clock), local_(spec, clock) {}
  ~JobRanks();
  JobRanks(const JobRanks&) = delete;
  JobRanks& operator=(const JobRanks&) = delete;

  /// Starts the workers of this node, with the signal mask, as clients of the store.
  void start(const sigset_t& mask, StoreServer& store);

  [[nodiscard]] LocalRanks& local() { return local_; }
  /// Returns all ranks by number; those of other nodes come last.
  [[nodiscard]] std::span<RankState* const> all() const { return all_; }
  [[nodiscard]] bool none_alive() const;
  /// Returns the seconds that a stop signal leaves the ranks; see LaunchSpec::stop_grace_s.
  [[nodiscard]] double stop_grace_s() const;
  /// Returns which nodes have not joined, and how to start them; empty if all have joined.
  [[nodiscard]] std::string missing_nodes_note() const;

  /// `signal` is the stop signal of the job, or 0 if a rank has failed.
  void terminate(int signal);
  void kill();

  /// Writes the stacks of all workers of this node and asks the other nodes for theirs. Returns the
  /// part of the message about the stacks of `hung`.
  [[nodiscard]] std::string write_stacks(const RankState& hung);
  /// Returns the rank of another node that caused a hang, if its stacks were requested.
  [[nodiscard]] std::optional<int> remote_stacks_rank() const { return remote_stacks_rank_; }

 private:
  const LaunchSpec& spec_;
  const Clock& clock_;
  LocalRanks local_;
  std::vector<RankState*> all_;
  std::optional<int> remote_stacks_rank_;
};

/// Everything that a supervisor knows when no rank is left.
struct FinalJobState {
  const LaunchSpec& spec;
  std::span<RankState* const> ranks;  // including other nodes
  std::optional<int> stop_signal;
  std::optional<int> remote_stacks_rank;  // rank of another node that caused a hang
};

/// Returns how the job ended. It also reads the log folder: a worker's error file if there is no
/// other reason, stacks, and the tail of the log.
Outcome collect_outcome(const FinalJobState& job);

}  // namespace trainctl::launch
