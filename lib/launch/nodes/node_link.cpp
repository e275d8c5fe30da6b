#include "launch/nodes/node_link.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
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

}  // namespace trainctl::launch
