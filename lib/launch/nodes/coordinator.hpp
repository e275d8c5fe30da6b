#pragma once

#include "launch/nodes/node_link.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "launch/supervise/rank.hpp"
#include "launch/supervise/supervisor.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::launch {

/// What every node of a job has to have in common.
struct JobFacts {
  int nodes = 1;
  int ranks_per_node = 1;
  std::string version;      // of the program
  std::string config;       // digest of the resolved config
  std::string accelerator;  // "cpu" or "gpu"
};

/// The other nodes of a job as the head sees them, from attempt to attempt: takes their links, says
/// who may take part, starts and stops their ranks. Node 0 is the head itself. Never waits; times
/// are the caller's own.
class RemoteNodes {
 public:
  RemoteNodes(JobFacts facts, const BeatTimes& times);

  /// A new attempt: none of its ranks has started; the nodes that are here are told to start
  /// theirs, the others when they come.
  void begin(const Welcome& welcome, std::optional<double> hang_timeout_s, double now);
  /// A connection that has proved the token speaks for that node, from 1.
  void adopt(int node, Fd socket, const std::string& peer, double now);

  void append_to(std::vector<pollfd>& polls) const;
  /// Reads and sends what can be at once. Events of the attempt's ranks go to the handler.
  void serve(double now, int round, const EventHandler& on_event);

  void stop(int signal, double now);
  void kill(double now);
  void ask_for_stacks(double now);
  /// Tells how the run has ended, and closes all links. Waits at most 2 s, by the system's clock.
  void end(const RunOver& over, double now);
  /// Some node has never been here.
  [[nodiscard]] bool lacks_nodes() const;

  [[nodiscard]] const std::vector<std::unique_ptr<RemoteRank>>& ranks() const { return ranks_; }
  /// "node 1 (ranks 2 and 3) has not joined", for each.
  [[nodiscard]] std::vector<std::string> missing() const;
  /// Stop signals that have come to nodes since the last call.
  std::vector<StopAsked> take_asked();
  /// Ranks that have ended since the last call.
  std::vector<RankEnd> take_ended();
  /// Nodes whose link is gone since the last call: they may join again.
  std::vector<int> take_gone();

 private:
  struct Node {
    int number = 0;
    std::unique_ptr<NodeLink> link;  // null: it is not here
    std::string peer;
    std::string host;      // empty: it has not said hello
    int attempt = 0;       // the last one that it was told to start
    bool is_busy = false;  // with that attempt
    bool is_leaving = false;
    bool was_here = false;
  };

  void take(Node& node, const NodeMessage& message, double now);
  void greet(Node& node, const NodeHello& hello, double now);
  void welcome(Node& node, double now);
  void refuse(Node& node, const Refused& refusal, double now);
  void take_ended(const RankEnded& ended);
  void leave(Node& node, const NodeLeaves& leaves);
  void leave_stopped(Node& node, const NodeLeaves& leaves);
  void lose(Node& node, const Report& why);
  void dismiss(Node& node);
  void forget(Node& node);
  [[nodiscard]] std::optional<Refused> objection(const Node& node, const NodeHello& hello) const;
  [[nodiscard]] RemoteRank* rank_of(const Node& node, int rank);
  void tell_busy(const NodeMessage& message, double now);

  JobFacts facts_;
  BeatTimes times_;
  std::vector<Node> nodes_;  // by number, without the head
  std::vector<std::unique_ptr<RemoteRank>> ranks_;
  Welcome welcome_;
  bool is_open_ = false;  // the attempt goes on: nodes that come are told to start
  int round_ = 0;
  const EventHandler* on_event_ = nullptr;  // while serve() runs
  std::vector<StopAsked> asked_;
  std::vector<RankEnd> ended_;
  std::vector<int> gone_;
};

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
