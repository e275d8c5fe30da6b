#pragma once

#include "base/files.hpp"
#include "events/pipe.hpp"
#include "events/records.hpp"
#include "launch/supervise/verdict.hpp"

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// The messages between the supervisors of several nodes: one line of JSON each, which includes the
// name of the message.

namespace trainctl::launch {

/// The longest accepted line: an event of a rank with its envelope.
inline constexpr std::size_t kMaxNodeLineBytes = (std::size_t{1} << 20) + 256;

/// Sent in both directions every few seconds as a sign of life.
struct Keepalive {
  static constexpr auto kName = "keepalive";
};

// ---- Messages from a joined node to the coordinator.

/// The first message of a node.
struct NodeHello {
  static constexpr auto kName = "hello";
  int node = 0;
  int first_rank = 0;
  int ranks = 0;
  std::string host;
  std::string version;      // of the program
  std::string config;       // digest of the resolved config
  std::string accelerator;  // "cpu" or "gpu"
};

/// Forwards an event of a rank.
struct RankEvent {
  static constexpr auto kName = "event";
  int rank = 0;
  events::Event event;
};

/// The last values of a rank's events::Heartbeat.
struct RankHeartbeat {
  int rank = 0;
  std::int64_t step = 0;
  int phase = 0;
  std::int64_t stamp = 0;
  std::int64_t loaded = 0;
  std::string collective;  // the last one entered
  bool in_collective = false;
};
struct NodeHeartbeats {
  static constexpr auto kName = "heartbeats";
  std::vector<RankHeartbeat> ranks;
};

/// Reports how a rank ended.
struct RankEnded {
  static constexpr auto kName = "ended";
  RankEnd end;
};

/// Reports that the node got a stop signal. at_once: a second signal.
struct StopRequested {
  static constexpr auto kName = "stop_requested";
  int signal = 0;
  bool at_once = false;
};

/// Reports that none of the attempt's ranks is left on the node.
struct NodeFinished {
  static constexpr auto kName = "finished";
};

/// Reports that the node cannot take part.
struct NodeLeaves {
  static constexpr auto kName = "leaves";
  int kind = 1;  // exit code of an ErrorKind
  std::string reason;
};

// ---- Messages from the coordinator to a joined node.

/// Asks the node to start the ranks of an attempt.
struct Welcome {
  static constexpr auto kName = "welcome";
  std::string run_dir;    // absolute
  std::string lock_text;  // content of the file .lock, since two folders may have the same name
  int attempt = 1;
};

/// Asks for SIGTERM to the ranks. signal: the stop signal of the job, or 0 if a rank has failed.
struct StopRanks {
  static constexpr auto kName = "stop";
  int signal = 0;
};
/// Asks for SIGKILL to the ranks.
struct KillRanks {
  static constexpr auto kName = "kill";
};
/// Asks for the stacks of all threads of the ranks in the log folder.
struct WriteStacks {
  static constexpr auto kName = "stacks";
};

/// Rejects the node; the connection closes.
struct JoinRefusal {
  static constexpr auto kName = "refused";
  int kind = 2;
  std::string reason;
  std::string run_dir;  // the coordinator's, set if the configs differ
};

/// Reports that the run has ended, and its result.
struct RunEnded {
  static constexpr auto kName = "over";
  int exit_code = 0;
  std::string verdict;
  std::string message;
};

using NodeMessage = std::variant<Keepalive, NodeHello, RankEvent, NodeHeartbeats, RankEnded,
                                 StopRequested, NodeFinished, NodeLeaves, Welcome, StopRanks,
                                 KillRanks, WriteStacks, JoinRefusal, RunEnded>;

/// Returns the message as one line without the newline.
std::string encode(const NodeMessage& message);
/// Throws Error(unexpected) if the line is not a message.
NodeMessage decode_node_message(std::string_view line);

/// The intervals of the sign of life between both sides of a link, in seconds.
struct KeepaliveTimes {
  double interval_s = 5;  // longest pause between two messages
  double timeout_s = 15;  // silence after which the other side is considered lost
};

/// One end of the connection between the coordinator and another node: sends messages and beats,
/// and detects the loss of the other side. Never blocks; memory and work per call are bounded for
/// any input. The caller passes all times, in seconds of a steady clock.
class NodeLink {
 public:
  /// Takes ownership of the socket and makes it non-blocking.
  NodeLink(Fd socket, const KeepaliveTimes& times, double now);

  /// Adds the descriptors and events to poll for.
  void append_to(std::vector<pollfd>& polls) const;
  /// Sends as much of the message as the socket accepts; serve() sends the rest.
  void send(const NodeMessage& message, double now);
  using Handler = std::function<void(const NodeMessage& message)>;
  /// Makes one bounded read, calls the handler for each message except beats, sends pending output,
  /// and sends a beat if one is due. Exceptions of the handler are passed on.
  void serve(double now, const Handler& handler);
  /// Stores a message for the handler of the next serve() call.
  void put_back(const NodeMessage& message) { put_back_.push_back(message); }
  /// Restarts the silence timeout, for example after this side was busy elsewhere.
  void reset_silence_timer(double now) { received_at_ = now; }
  /// Sets the silence timeout of the other side.
  void set_silence_timeout(double seconds) { times_.timeout_s = seconds; }
  /// Closes the sending direction; the other side sees the end of the connection.
  void close_sending();

  /// Returns whether less than 4 MiB wait to be sent. Callers that can wait should wait otherwise.
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool has_sent_all() const { return output_.empty() || is_cut_off_; }
  /// Returns why the other side is lost ("its connection has closed", ...); empty while connected.
  [[nodiscard]] const std::optional<std::string>& lost() const { return lost_; }

 private:
  void flush(double now);
  void handle_line(std::string_view line, const Handler& handler);
  void mark_lost(std::string why);

  Fd socket_;
  KeepaliveTimes times_;
  events::LineReader lines_{kMaxNodeLineBytes};
  std::vector<NodeMessage> put_back_;
  std::string output_;
  double received_at_;
  double sent_at_;
  bool is_cut_off_ = false;  // nothing can be sent, but received data can still be read
  std::optional<std::string> lost_;
};

}  // namespace trainctl::launch
