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

// What the supervisors of several nodes say to each other, one line of JSON each, with the name of
// the message in it.

namespace trainctl::launch {

/// Longest line that passes: an event of a rank, and what is laid around it.
inline constexpr std::size_t kMaxNodeLineBytes = (std::size_t{1} << 20) + 256;

/// Either way, every few seconds: this side lives.
struct Beat {
  static constexpr auto kName = "beat";
};

// ---- From a joined node to the head.

/// Its first word.
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

struct RankEvent {
  static constexpr auto kName = "event";
  int rank = 0;
  events::Event event;
};

/// What a rank stamped last, see events::Heartbeat.
struct RankPulse {
  int rank = 0;
  std::int64_t step = 0;
  int phase = 0;
  std::int64_t stamp = 0;
  std::int64_t loaded = 0;
  std::string collective;  // its last
  bool in_collective = false;
};
struct NodePulses {
  static constexpr auto kName = "pulses";
  std::vector<RankPulse> ranks;
};

/// How a rank ended; its number, place and host are in it.
struct RankEnded {
  static constexpr auto kName = "ended";
  RankEnd end;
};

/// A stop signal has come to the node. at_once: a second one.
struct StopAsked {
  static constexpr auto kName = "stop_asked";
  int signal = 0;
  bool at_once = false;
};

/// None of the attempt's ranks is left on the node.
struct NodeFinished {
  static constexpr auto kName = "finished";
};

/// The node cannot take part, and why.
struct NodeLeaves {
  static constexpr auto kName = "leaves";
  int kind = 1;  // ErrorKind as its exit code
  std::string reason;
};

// ---- From the head to a joined node.

/// An attempt begins: start the ranks.
struct Welcome {
  static constexpr auto kName = "welcome";
  std::string run_dir;  // absolute
  std::string mark;     // what its file .lock says: two folders may have the same name
  int attempt = 1;
};

/// SIGTERM to the ranks. signal: what the job was asked by; 0: a rank has failed.
struct StopRanks {
  static constexpr auto kName = "stop";
  int signal = 0;
};
/// SIGKILL to the ranks.
struct KillRanks {
  static constexpr auto kName = "kill";
};
/// Stacks of all threads of the ranks go to the log folder.
struct WriteStacks {
  static constexpr auto kName = "stacks";
};

/// The node may not take part; the connection closes.
struct Refused {
  static constexpr auto kName = "refused";
  int kind = 2;
  std::string reason;
  std::string run_dir;  // not empty where the configs differ: with the head's
};

/// The run has ended, and how.
struct RunOver {
  static constexpr auto kName = "over";
  int exit_code = 0;
  std::string verdict;
  std::string message;
};

using NodeMessage =
    std::variant<Beat, NodeHello, RankEvent, NodePulses, RankEnded, StopAsked, NodeFinished,
                 NodeLeaves, Welcome, StopRanks, KillRanks, WriteStacks, Refused, RunOver>;

/// Without the newline.
std::string encode(const NodeMessage& message);
/// Throws Error(unexpected) on a line that is no message.
NodeMessage decode_node_message(std::string_view line);

/// How both sides of a link tell that they live, in seconds.
struct BeatTimes {
  double beat_s = 5;      // between two words, at most
  double silence_s = 15;  // without a word: the other side is lost
};

/// One end of the connection between the head and another node: messages, beats, the loss of the
/// other side. Never waits; memory and work per call are bounded whatever comes. Times are the
/// caller's own.
class NodeLink {
 public:
  /// Owns the socket from here on, made non-blocking.
  NodeLink(Fd socket, const BeatTimes& times, double now);

  /// What to poll for.
  void append_to(std::vector<pollfd>& polls) const;
  /// Sends it, or as much as the socket takes; the rest goes with serve().
  void send(const NodeMessage& message, double now);
  using Handler = std::function<void(const NodeMessage& message)>;
  /// One bounded read, whose messages the handler gets (beats aside), then what waits to be sent,
  /// and a beat where that is due. What the handler throws comes through.
  void serve(double now, const Handler& handler);
  /// The handler of the next serve() gets it first: it was not for this one.
  void put_back(const NodeMessage& message) { held_.push_back(message); }
  /// Counts the silence of the other side anew: this side was busy elsewhere.
  void forgive(double now) { heard_at_ = now; }
  /// From here on the other side may be silent for so long.
  void allow_silence(double seconds) { times_.silence_s = seconds; }
  /// Nothing more is sent; the other side sees the end of the connection.
  void hang_up();

  /// Below 4 MiB wait to be sent: whoever can wait should, above it.
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool has_sent_all() const { return output_.empty() || is_cut_off_; }
  /// Why the other side is lost: "its connection has closed", ...; nothing while it is not.
  [[nodiscard]] const std::optional<std::string>& lost() const { return lost_; }

 private:
  void flush(double now);
  void take(std::string_view line, const Handler& handler);
  void lose(std::string why);

  Fd socket_;
  BeatTimes times_;
  events::LineReader lines_{kMaxNodeLineBytes};
  std::vector<NodeMessage> held_;
  std::string output_;
  double heard_at_;
  double sent_at_;
  bool is_cut_off_ = false;  // nothing can be sent; what has come may still be read
  std::optional<std::string> lost_;
};

}  // namespace trainctl::launch
