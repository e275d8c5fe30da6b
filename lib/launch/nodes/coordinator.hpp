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

/// The properties that all nodes of a job must share.
struct JobFacts {
  int nodes = 1;
  int ranks_per_node = 1;
  std::string version;      // of the program
  std::string config;       // digest of the resolved config
  std::string accelerator;  // "cpu" or "gpu"
};

/// The other nodes of a job, as the coordinator (node 0) manages them across attempts: it accepts
/// their links, decides who takes part, and starts and stops their ranks. Never blocks; the caller
/// passes all times, in seconds of a steady clock.
class RemoteNodes {
 public:
  RemoteNodes(JobFacts facts, const KeepaliveTimes& times);

  /// Starts a new attempt, in which no rank has started. Connected nodes are asked to start their
  /// ranks now, other nodes when they join.
  void begin_attempt(const Welcome& welcome, std::optional<double> hang_timeout_s, double now);
  /// Adds the connection of node `node` (1 or above), which has proved that it knows the token.
  void add_link(int node, Fd socket, const std::string& peer, double now);

  void append_to(std::vector<pollfd>& polls) const;
  /// Reads and sends without blocking. Calls the handler for events of the attempt's ranks.
  void serve(double now, int round, const EventHandler& on_event);

  /// Asks the nodes for SIGTERM to their ranks; `signal` as in StopRanks.
  void stop(int signal, double now);
  /// Asks the nodes for SIGKILL to their ranks.
  void kill(double now);
  void request_stacks(double now);
  /// Sends the result of the run to all nodes and closes all links. Blocks for at most 2 s.
  void end(const RunEnded& over, double now);
  /// Returns whether some node has never joined.
  [[nodiscard]] bool has_missing_nodes() const;

  [[nodiscard]] const std::vector<std::unique_ptr<RemoteRank>>& ranks() const { return ranks_; }
  /// Returns "node 1 (ranks 2 and 3) has not joined" for each missing node.
  [[nodiscard]] std::vector<std::string> missing() const;
  /// Returns the stop signals that nodes have reported since the last call.
  std::vector<StopRequested> take_stop_requests();
  /// Returns the ranks that have ended since the last call.
  std::vector<RankEnd> take_ended();
  /// Returns the nodes whose link has closed since the last call; they may join again.
  std::vector<int> take_disconnected();

 private:
  /// A node other than node 0.
  struct Node {
    int number = 0;
    std::unique_ptr<NodeLink> link;  // null while the node is not connected
    std::string peer;
    std::string host;      // empty until NodeHello
    int attempt = 0;       // last attempt that the node was asked to start
    bool is_busy = false;  // runs that attempt
    bool is_leaving = false;
    bool has_joined_before = false;
  };

  void handle(Node& node, const NodeMessage& message, double now);
  void handle_hello(Node& node, const NodeHello& hello, double now);
  void welcome(Node& node, double now);
  void reject(Node& node, const JoinRefusal& refusal, double now);
  void handle_ended(const RankEnded& ended);
  void handle_leave(Node& node, const NodeLeaves& leaves);
  void handle_stopped_leave(Node& node, const NodeLeaves& leaves);
  void mark_lost(Node& node, const FailureReport& why);
  void close_link(Node& node);
  void remove(Node& node);
  [[nodiscard]] std::optional<JoinRefusal> find_mismatch(const Node& node,
                                                         const NodeHello& hello) const;
  [[nodiscard]] RemoteRank* rank_of(const Node& node, int rank);
  void send_to_busy(const NodeMessage& message, double now);

  JobFacts facts_;
  KeepaliveTimes times_;
  std::vector<Node> nodes_;  // by number, without node 0
  std::vector<std::unique_ptr<RemoteRank>> ranks_;
  Welcome welcome_;
  bool is_open_ = false;  // the attempt is running: joining nodes are asked to start
  int round_ = 0;
  const EventHandler* on_event_ = nullptr;  // set while serve() runs
  std::vector<StopRequested> stop_requests_;
  std::vector<RankEnd> ended_;
  std::vector<int> disconnected_;
};

/// The coordinator (node 0) of a job with several nodes: the listener that they join, and their
/// state. Lives longer than all attempts of the job.
class Coordinator {
 public:
  Coordinator(Listener listener, JobFacts facts, const KeepaliveTimes& times)
      : listener_(std::move(listener)), nodes_(std::move(facts), times) {}

  /// Sets the part of the Welcome message that is the same for all attempts.
  void set_folder(std::string run_dir, std::string lock_text) {
    welcome_.run_dir = std::move(run_dir);
    welcome_.lock_text = std::move(lock_text);
  }
  /// Starts the next attempt; rank connections of the previous one are dropped.
  void begin_attempt(const LaunchSpec& spec, double now);

  void append_to(std::vector<pollfd>& polls) const;
  /// Accepts waiting connections and serves the nodes.
  void serve(double now, int round, const EventHandler& on_event);
  /// Sends the result of the run to the connected nodes and, for at most `timeout_s`, to nodes
  /// that join late and would otherwise search for this one in vain. `give_up` ends the wait.
  void end(const RunEnded& over, double timeout_s, const GiveUp& give_up = {});
  struct RankArrival {
    int rank;
    Fd socket;
  };
  /// Returns the store connections of ranks on other nodes since the last call.
  std::vector<RankArrival> take_rank_arrivals() { return std::exchange(arrivals_, {}); }

  [[nodiscard]] RemoteNodes& nodes() { return nodes_; }
  [[nodiscard]] const Endpoint& endpoint() const { return listener_.endpoint(); }

 private:
  bool accept_arrivals(double now);

  Listener listener_;
  RemoteNodes nodes_;
  Welcome welcome_{.attempt = 0};
  std::vector<int> claimed_ranks_;  // ranks whose connection has arrived in this attempt
  std::vector<RankArrival> arrivals_;
};

}  // namespace trainctl::launch
