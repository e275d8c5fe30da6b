#pragma once

#include "base/files.hpp"
#include "events/pipe.hpp"
#include "launch/nodes/node_message.hpp"

#include <poll.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::launch {

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
