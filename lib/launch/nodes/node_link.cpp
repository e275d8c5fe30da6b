#include "launch/nodes/node_link.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "events/fields.hpp"
#include "events/pipe.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <type_traits>

namespace trainctl::launch {
namespace {

constexpr std::size_t kQueueLimit = std::size_t{4} << 20;
// A peer that leaves this many bytes unread counts as lost.
constexpr std::size_t kMaxQueuedBytes = std::size_t{16} << 20;

}  // namespace

NodeLink::NodeLink(Fd socket, const KeepaliveTimes& times, double now)
    : socket_(std::move(socket)), times_(times), received_at_(now), sent_at_(now) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK);
}

void NodeLink::append_to(std::vector<pollfd>& polls) const {
  if (lost_) return;
  const int wanted = has_sent_all() ? POLLIN : POLLIN | POLLOUT;
  polls.push_back({socket_.get(), static_cast<short>(wanted), 0});
}

bool NodeLink::has_room() const { return output_.size() < kQueueLimit; }

void NodeLink::send(const NodeMessage& message, double now) {
  if (lost_ || is_cut_off_) return;
  output_ += encode(message) + '\n';
  flush(now);
}

void NodeLink::serve(double now, const Handler& handler) {
  for (const NodeMessage& message : std::exchange(put_back_, {})) handler(message);
  if (lost_) return;
  const auto state =
      lines_.read_some(socket_.get(), [&](std::string_view line) { handle_line(line, handler); });
  using State = events::LineReader::State;
  if (state == State::more) received_at_ = now;
  if (state == State::closed) mark_lost("its connection was closed");
  if (state == State::too_long) mark_lost("it sent a line longer than 1 MiB");
  if (!lost_ && now - received_at_ > times_.timeout_s)
    mark_lost(fmt::format("it sent nothing for {}", human_duration(now - received_at_)));
  if (lost_) return;
  if (now - sent_at_ >= times_.interval_s && output_.empty()) send(Keepalive{}, now);
  flush(now);
}

void NodeLink::handle_line(std::string_view line, const Handler& handler) {
  if (lost_) return;  // an earlier line was invalid
  std::optional<NodeMessage> message;
  try {
    message = decode_node_message(line);
  } catch (const Error& error) {
    return mark_lost("it sent " + error.message());
  }
  if (!std::holds_alternative<Keepalive>(*message)) handler(*message);
}

void NodeLink::flush(double now) {
  std::size_t sent = 0;
  while (sent < output_.size() && !is_cut_off_) {
    const ssize_t count = ::send(socket_.get(), output_.data() + sent, output_.size() - sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
      sent_at_ = now;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      is_cut_off_ = true;
    }
  }
  output_.erase(0, sent);
  if (is_cut_off_) output_.clear();
  if (output_.size() > kMaxQueuedBytes) mark_lost("it does not read the messages from this node");
}

void NodeLink::close_sending() {
  ::shutdown(socket_.get(), SHUT_WR);
  is_cut_off_ = true;
  output_.clear();
}

void NodeLink::mark_lost(std::string why) {
  if (!lost_) lost_ = std::move(why);
}

// The fields of each message, for writing and reading (events/fields.hpp).

RECORD_FIELDS(NodeHello, node, first_rank, ranks, host, version, config, accelerator)
RECORD_FIELDS(RankHeartbeat, rank, step, phase, stamp, loaded, collective, in_collective)
RECORD_FIELDS(FailureReport, kind, message)
RECORD_FIELDS(RankEnd, rank, host, pid, signal, exit_code, dumped_core, finished, sigterm_sent,
              sigkill_sent, memory_hint, step, phase, collective, report)
RECORD_FIELDS(NodeHeartbeats, ranks)
RECORD_FIELDS(StopRequested, signal, at_once)
RECORD_FIELDS(NodeLeaves, kind, reason)
RECORD_FIELDS(Welcome, run_dir, lock_text, attempt)
RECORD_FIELDS(StopRanks, signal)
RECORD_FIELDS(JoinRefusal, kind, reason, run_dir)

void each_field(events::Like<RankEnded> auto& m, auto&& visit) { each_field(m.end, visit); }
void each_field(events::Like<RunEnded> auto& m, auto&& visit) {
  visit("exit_code", m.exit_code);
  visit("verdict", m.verdict);
  visit("text", m.message);  // "message" is the name of the message
}

/// Messages without fields.
template <class Message>
concept Empty = std::is_empty_v<Message>;
void each_field(Empty auto& /*message*/, auto&& /*visit*/) {}

namespace {

constexpr int kMaxRanks = 1 << 16;

void check_rank(int rank) {
  ENSURE(unexpected, rank >= 0 && rank < kMaxRanks, "rank {} does not exist", rank);
}

void check(const auto& /*message*/) {}
void check(const RankEnded& message) { check_rank(message.end.rank); }
void check(const NodeHeartbeats& message) {
  ENSURE(unexpected, message.ranks.size() <= std::size_t{kMaxRanks}, "'ranks' is too long");
  for (const RankHeartbeat& heartbeat : message.ranks) check_rank(heartbeat.rank);
}

template <class Message>
Message read_message(const Json& document) {
  Message message;
  events::read_fields(document, message);
  check(message);
  return message;
}

/// The event is an object in the line, converted back to the line that events::decode() reads.
template <>
RankEvent read_message(const Json& document) {
  RankEvent message;
  events::read(document.at("rank"), message.rank);
  check_rank(message.rank);
  message.event = events::decode(to_line(document.at("event")));
  return message;
}

template <class... Messages>
NodeMessage decode_as(const std::string& name, const Json& document,
                      const std::variant<Messages...>* /*list*/) {
  std::optional<NodeMessage> found;
  const auto try_one = [&]<class Message>(const Message* /*tag*/) {
    if (name == Message::kName) found = read_message<Message>(document);
  };
  (try_one(static_cast<const Messages*>(nullptr)), ...);
  ENSURE(unexpected, found.has_value(), "unknown message '{}'", printable(name));
  return std::move(*found);
}

[[noreturn]] void refuse(std::string_view line, const std::string& why) {
  THROW(unexpected, "an invalid message ({}): '{}...'", printable(why),
        printable(line.substr(0, 60)));
}

}  // namespace

std::string encode(const NodeMessage& message) {
  // The event is nested as an object: escaping its quotes in a string would double its size.
  if (const auto* event = std::get_if<RankEvent>(&message))
    return fmt::format(R"({{"message":"event","rank":{},"event":{}}})", event->rank,
                       events::encode(event->event));
  return std::visit(
      []<class Message>(const Message& one) {
        Json document{{"message", Message::kName}};
        if constexpr (!std::is_same_v<Message, RankEvent>) document.update(events::value_of(one));
        return to_line(document);
      },
      message);
}

NodeMessage decode_node_message(std::string_view line) {
  try {
    const Json document = parse_json(line);
    ENSURE(unexpected, document.is_object(), "it is not a JSON object");
    std::string name;
    events::read(document.at("message"), name);
    return decode_as(name, document, static_cast<const NodeMessage*>(nullptr));
  } catch (const Json::exception& error) {
    refuse(line, error.what());
  } catch (const events::Mismatch& mismatch) {
    refuse(line, "expected " + mismatch.expected);
  } catch (const Error& error) {
    refuse(line, error.message());
  }
}

}  // namespace trainctl::launch
