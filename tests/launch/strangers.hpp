#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "launch/rendezvous/address.hpp"
#include "launch/rendezvous/handshake.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "support/catch.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

// Both ends of a rendezvous in one test: a listener that is served by hand, with artificial times,
// and the peers that connect to it.

namespace trainctl::launch {

template <class Body>
Error thrown_by(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  FAIL("it came back");
  throw std::logic_error("unreachable");
}

/// Returns the error of `attempt(limit_s)`. The limit is raised if the machine was too busy for an
/// error of that kind within it.
template <class Attempt>
Error thrown_within(double limit_s, ErrorKind kind, const Attempt& attempt) {
  Error error = thrown_by([&] { attempt(limit_s); });
  for (int raised = 0; raised < 2 && error.kind() != kind; ++raised) {
    limit_s *= 4;
    error = thrown_by([&] { attempt(limit_s); });
  }
  return error;
}

inline Token token_of(unsigned char value) {
  Token token{};
  token.fill(std::byte{value});
  return token;
}

/// Returns options for four ranks on two nodes: ranks 2 and 3 and node 1 may join.
inline Listener::Options head_of_two(std::string host = "127.0.0.1") {
  return {.endpoint = {std::move(host), 0},
          .token = token_of(7),
          .run_id = "run",
          .world_size = 4,
          .nodes = 2,
          .port_wait_s = 0};
}

inline Join request_to(const Listener& head, const Claim& claim) {
  return {.endpoint = head.endpoint(),
          .token = token_of(7),
          .run_id = "run",
          .claim = claim,
          .timeout_s = 60};
}

/// Polls `done` for as long as a busy machine may need.
template <class Done>
void wait_until(Done&& done) {
  const double end = steady_clock().now() + 60;
  while (!done()) {
    if (steady_clock().now() > end) FAIL("it did not come");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Serves the listener at the time `now` until `done` returns true.
template <class Done>
void serve_until(Listener& head, Done&& done, double now = 0) {
  wait_until([&] {
    head.serve(now);
    return done();
  });
}

inline Listener::Arrival arrival_at(Listener& head) {
  std::vector<Listener::Arrival> arrivals;
  serve_until(head, [&] {
    arrivals = head.take_arrivals();
    return !arrivals.empty();
  });
  REQUIRE(arrivals.size() == 1);
  return std::move(arrivals[0]);
}

/// Returns the next message about a rejected connection.
inline std::string refusal_of(Listener& head, double now = 0) {
  std::vector<std::string> refusals;
  serve_until(
      head,
      [&] {
        refusals = head.take_refusals();
        return !refusals.empty();
      },
      now);
  CHECK(refusals.size() == 1);
  return refusals[0];
}

inline std::future<Joined> join_aside(Join request) {
  return std::async(std::launch::async, [request = std::move(request)] { return join(request); });
}

template <class Value>
bool is_ready(const std::future<Value>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// A connection to a listener that sends arbitrary bytes.
class Stranger {
 public:
  explicit Stranger(const Endpoint& endpoint) {
    const Address address = resolve(endpoint).addresses.at(0);
    socket_ = Fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket_.get(), address.get(), address.size) != 0)
      throw std::runtime_error("connect");
  }

  void say(std::string_view bytes) const {
    ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Returns the received bytes, at most `most`, without blocking.
  std::string hear(std::size_t most = 4096) {
    std::string bytes(most, '\0');
    const ssize_t count = ::recv(socket_.get(), bytes.data(), most, MSG_DONTWAIT);
    is_cut_ = is_cut_ || count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
    bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return bytes;
  }
  /// Returns whether hear() found that the other side has closed.
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  void hang_up() { socket_.reset(); }
  [[nodiscard]] const Fd& socket() const { return socket_; }

 private:
  Fd socket_;
  bool is_cut_ = false;
};

/// Runs the handshake until the coordinator has answered or closed, and returns all that was sent.
inline std::string introduce(Listener& head, Stranger& stranger, JoinHandshake& handshake) {
  std::string said;
  serve_until(head, [&] {
    const std::string bytes = handshake.take_output();
    stranger.say(bytes);
    said += bytes;
    const std::string heard = stranger.hear(handshake.wanted());
    if (!heard.empty()) handshake.take(heard);
    return stranger.is_cut() || handshake.answer().has_value();
  });
  return said;
}

}  // namespace trainctl::launch
