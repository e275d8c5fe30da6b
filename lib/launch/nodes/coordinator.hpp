#pragma once

#include "launch/nodes/remote_nodes.hpp"
#include "launch/rendezvous/rendezvous.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::launch {

/// The head of several nodes: where the others join, and what it knows of them. Outlives every
/// attempt of the job.
class Head {
 public:
  Head(Listener listener, JobFacts facts, const BeatTimes& times)
      : listener_(std::move(listener)), nodes_(std::move(facts), times) {}

  /// What is said to nodes at the beginning of each attempt but its number.
  void set_folder(std::string run_dir, std::string mark) {
    welcome_.run_dir = std::move(run_dir);
    welcome_.mark = std::move(mark);
  }
  /// The next attempt; the connections of ranks of the last one are gone.
  void begin(const LaunchSpec& spec, double now);

  void append_to(std::vector<pollfd>& polls) const;
  /// Lets in who waits, and serves the nodes.
  void serve(double now, int round, const EventHandler& on_event);
  /// Tells all nodes how the run has ended: those that are here, and for at most `patience_s` those
  /// that have not come so far, which would look for this one in vain. `give_up` ends that wait.
  void end(const RunOver& over, double patience_s, const GiveUp& give_up = {});
  struct RankArrival {
    int rank;
    Fd socket;
  };
  /// Store connections of ranks of other nodes since the last call.
  std::vector<RankArrival> take_rank_arrivals() { return std::exchange(arrivals_, {}); }

  [[nodiscard]] RemoteNodes& nodes() { return nodes_; }
  [[nodiscard]] const Endpoint& endpoint() const { return listener_.endpoint(); }

 private:
  bool adopt_arrivals(double now);

  Listener listener_;
  RemoteNodes nodes_;
  Welcome welcome_{.attempt = 0};
  std::vector<int> claimed_;  // ranks whose connection has come in this attempt
  std::vector<RankArrival> arrivals_;
};

}  // namespace trainctl::launch
