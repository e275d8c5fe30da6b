#include "launch/nodes/node_link.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "events/codec.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace trainctl::launch {
namespace {

constexpr std::size_t kRoom = std::size_t{4} << 20;
// Who leaves so much unread does not live.
constexpr std::size_t kMostQueued = std::size_t{16} << 20;

}  // namespace

NodeLink::NodeLink(Fd socket, const BeatTimes& times, double now)
    : socket_(std::move(socket)), times_(times), heard_at_(now), sent_at_(now) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK);
}

void NodeLink::append_to(std::vector<pollfd>& polls) const {
  if (lost_) return;
  const int wanted = has_sent_all() ? POLLIN : POLLIN | POLLOUT;
  polls.push_back({socket_.get(), static_cast<short>(wanted), 0});
}

bool NodeLink::has_room() const { return output_.size() < kRoom; }

void NodeLink::send(const NodeMessage& message, double now) {
  if (lost_ || is_cut_off_) return;
  output_ += encode(message) + '\n';
  flush(now);
}

void NodeLink::serve(double now, const Handler& handler) {
  for (const NodeMessage& message : std::exchange(held_, {})) handler(message);
  if (lost_) return;
  const auto state =
      lines_.read_some(socket_.get(), [&](std::string_view line) { take(line, handler); });
  using State = events::LineReader::State;
  if (state == State::more) heard_at_ = now;
  if (state == State::closed) lose("its connection has closed");
  if (state == State::too_long) lose("it sent a line above the limit of 1 MiB");
  if (!lost_ && now - heard_at_ > times_.silence_s)
    lose(fmt::format("it has been silent for {}", human_duration(now - heard_at_)));
  if (lost_) return;
  if (now - sent_at_ >= times_.beat_s && output_.empty()) send(Beat{}, now);
  flush(now);
}

void NodeLink::take(std::string_view line, const Handler& handler) {
  if (lost_) return;  // an earlier line was bad
  std::optional<NodeMessage> message;
  try {
    message = decode_node_message(line);
  } catch (const Error& error) {
    lose("it sent " + error.message());
    return;
  }
  if (!std::holds_alternative<Beat>(*message)) handler(*message);
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
  if (output_.size() > kMostQueued) lose("it does not read what it is sent");
}

void NodeLink::hang_up() {
  ::shutdown(socket_.get(), SHUT_WR);
  is_cut_off_ = true;
  output_.clear();
}

void NodeLink::lose(std::string why) {
  if (!lost_) lost_ = std::move(why);
}

namespace {

constexpr int kMostRanks = 1 << 16;

struct Writer {
  Json& document;

  template <class Value>
  void operator()(const char* name, const Value& value) const {
    document[name] = value;
  }
  template <class Value>
  void operator()(const char* name, const std::optional<Value>& value) const {
    document[name] = value ? Json(*value) : Json();
  }
};

struct Reader {
  const Json& document;

  template <class Value>
  void operator()(const char* name, Value& value) const {
    const Json& found = document.at(name);
    if constexpr (std::is_same_v<Value, bool>) {
      ENSURE(unexpected, found.is_boolean(), "'{}' is no truth value", name);
    } else if constexpr (std::is_integral_v<Value>) {
      ENSURE(unexpected, found.is_number_integer(), "'{}' is no whole number", name);
    } else {
      ENSURE(unexpected, found.is_string(), "'{}' is no text", name);
    }
    value = found.get<Value>();
  }
  template <class Value>
  void operator()(const char* name, std::optional<Value>& value) const {
    if (document.at(name).is_null()) return;
    (*this)(name, value.emplace());
  }
};

// ---- Fields, the same ones for writing and reading.

template <class Visit>
void fields(const Visit& visit, NodeHello& m) {
  visit("node", m.node);
  visit("first_rank", m.first_rank);
  visit("ranks", m.ranks);
  visit("host", m.host);
  visit("version", m.version);
  visit("config", m.config);
  visit("accelerator", m.accelerator);
}

template <class Visit>
void fields(const Visit& visit, RankPulse& m) {
  visit("rank", m.rank);
  visit("step", m.step);
  visit("phase", m.phase);
  visit("stamp", m.stamp);
  visit("loaded", m.loaded);
  visit("collective", m.collective);
  visit("in_collective", m.in_collective);
}

template <class Visit>
void fields(const Visit& visit, Report& m) {
  visit("kind", m.kind);
  visit("message", m.message);
}

template <class Visit>
void fields(const Visit& visit, RankEnd& m) {
  visit("rank", m.rank);
  visit("host", m.host);
  visit("pid", m.pid);
  visit("signal", m.signal);
  visit("exit_code", m.exit_code);
  visit("dumped_core", m.dumped_core);
  visit("finished", m.finished);
  visit("told_to_stop", m.told_to_stop);
  visit("killed_by_us", m.killed_by_us);
  visit("memory_hint", m.memory_hint);
  visit("step", m.step);
  visit("phase", m.phase);
  visit("collective", m.collective);
}

template <class Visit>
void fields(const Visit& visit, StopAsked& m) {
  visit("signal", m.signal);
  visit("at_once", m.at_once);
}

template <class Visit>
void fields(const Visit& visit, NodeLeaves& m) {
  visit("kind", m.kind);
  visit("reason", m.reason);
}

template <class Visit>
void fields(const Visit& visit, Welcome& m) {
  visit("run_dir", m.run_dir);
  visit("mark", m.mark);
  visit("attempt", m.attempt);
}

template <class Visit>
void fields(const Visit& visit, StopRanks& m) {
  visit("signal", m.signal);
}

template <class Visit>
void fields(const Visit& visit, Refused& m) {
  visit("kind", m.kind);
  visit("reason", m.reason);
  visit("run_dir", m.run_dir);
}

template <class Visit>
void fields(const Visit& visit, RunOver& m) {
  visit("exit_code", m.exit_code);
  visit("verdict", m.verdict);
  visit("said", m.message);  // "message" is what kind of message it is
}

template <class Message>
concept Empty = std::is_empty_v<Message>;

template <class Visit>
void fields(const Visit& /*visit*/, Empty auto& /*message*/) {}

// ---- What has more than plain fields.

template <class Message>
void write(Json& document, Message message) {
  fields(Writer{document}, message);
}

void write(Json& document, const NodePulses& pulses) {
  Json ranks = Json::array();
  for (const RankPulse& pulse : pulses.ranks) write(ranks.emplace_back(Json::object()), pulse);
  document["ranks"] = std::move(ranks);
}

void write(Json& document, const RankEnded& ended) {
  write(document, ended.end);
  if (!ended.end.report) return;
  write(document["report"], *ended.end.report);
}

template <class Message>
Message read(const Json& document) {
  ENSURE(unexpected, document.is_object(), "it is no object");
  Message message;
  fields(Reader{document}, message);
  return message;
}

void check_rank(int rank) {
  ENSURE(unexpected, rank >= 0 && rank < kMostRanks, "there is no rank {}", rank);
}

template <>
RankEvent read(const Json& document) {
  RankEvent message;
  Reader{document}("rank", message.rank);
  check_rank(message.rank);
  message.event = events::decode(to_line(document.at("event")));
  return message;
}

template <>
NodePulses read(const Json& document) {
  const Json& ranks = document.at("ranks");
  ENSURE(unexpected, ranks.is_array() && ranks.size() <= std::size_t{kMostRanks},
         "'ranks' is no list of ranks");
  NodePulses message;
  for (const Json& each : ranks) {
    message.ranks.push_back(read<RankPulse>(each));
    check_rank(message.ranks.back().rank);
  }
  return message;
}

template <>
RankEnded read(const Json& document) {
  RankEnded message;
  fields(Reader{document}, message.end);
  check_rank(message.end.rank);
  if (document.contains("report")) message.end.report = read<Report>(document["report"]);
  return message;
}

// ---- Names.

template <class Message>
struct Name;
// clang-format off
template <> struct Name<Beat> { static constexpr auto kText = "beat"; };
template <> struct Name<NodeHello> { static constexpr auto kText = "hello"; };
template <> struct Name<RankEvent> { static constexpr auto kText = "event"; };
template <> struct Name<NodePulses> { static constexpr auto kText = "pulses"; };
template <> struct Name<RankEnded> { static constexpr auto kText = "ended"; };
template <> struct Name<StopAsked> { static constexpr auto kText = "stop_asked"; };
template <> struct Name<NodeFinished> { static constexpr auto kText = "finished"; };
template <> struct Name<NodeLeaves> { static constexpr auto kText = "leaves"; };
template <> struct Name<Welcome> { static constexpr auto kText = "welcome"; };
template <> struct Name<StopRanks> { static constexpr auto kText = "stop"; };
template <> struct Name<KillRanks> { static constexpr auto kText = "kill"; };
template <> struct Name<WriteStacks> { static constexpr auto kText = "stacks"; };
template <> struct Name<Refused> { static constexpr auto kText = "refused"; };
template <> struct Name<RunOver> { static constexpr auto kText = "over"; };
// clang-format on

template <class... Messages>
NodeMessage decode_as(const std::string& name, const Json& document,
                      const std::variant<Messages...>* /*list*/) {
  std::optional<NodeMessage> found;
  const auto try_one = [&]<class Message>(const Message* /*tag*/) {
    if (name == Name<Message>::kText) found = read<Message>(document);
  };
  (try_one(static_cast<const Messages*>(nullptr)), ...);
  ENSURE(unexpected, found.has_value(), "there is no message '{}'", printable(name));
  return std::move(*found);
}

[[noreturn]] void refuse(std::string_view line, const std::string& why) {
  throw Error(ErrorKind::unexpected,
              fmt::format("a line that is no message between supervisors ({}): '{}...'",
                          printable(why), printable(line.substr(0, 60))));
}

}  // namespace

std::string encode(const NodeMessage& message) {
  // The event is one object within the line: as a text its quotes would double it.
  if (const auto* told = std::get_if<RankEvent>(&message))
    return fmt::format(R"({{"message":"event","rank":{},"event":{}}})", told->rank,
                       events::encode(told->event));
  return std::visit(
      []<class Message>(const Message& one) {
        Json document;
        document["message"] = Name<Message>::kText;
        if constexpr (!std::is_same_v<Message, RankEvent>) write(document, one);
        return to_line(document);
      },
      message);
}

NodeMessage decode_node_message(std::string_view line) {
  try {
    const Json document = Json::parse(line);
    ENSURE(unexpected, document.is_object(), "it is no object");
    std::string name;
    Reader{document}("message", name);
    return decode_as(name, document, static_cast<const NodeMessage*>(nullptr));
  } catch (const Json::exception& error) {
    refuse(line, error.what());
  } catch (const Error& error) {
    refuse(line, error.message());
  }
}

}  // namespace trainctl::launch
