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

// A test has both ends of a rendezvous: a listener that it serves by hand, with artificial times,
// and the peers that connect to it.

namespace trainctl::launch {

template <class Body>
Error thrown_by(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error was thrown");
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
inline Listener::Options two_node_options(std::string host = "127.0.0.1") {
  return {.endpoint = {std::move(host), 0},
          .token = token_of(7),
          .run_id = "run",
          .world_size = 4,
          .nodes = 2,
          .port_wait_s = 0};
}

inline JoinOptions join_options(const Listener& coordinator, const Claim& claim) {
  return {.endpoint = coordinator.endpoint(),
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
    if (steady_clock().now() > end) FAIL("the condition is still false after a minute");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Serves the listener at the time `now` until `done` returns true.
template <class Done>
void serve_until(Listener& coordinator, Done&& done, double now = 0) {
  wait_until([&] {
    coordinator.serve(now);
    return done();
  });
}

inline Listener::Arrival next_arrival(Listener& coordinator) {
  std::vector<Listener::Arrival> arrivals;
  serve_until(coordinator, [&] {
    arrivals = coordinator.take_arrivals();
    return !arrivals.empty();
  });
  REQUIRE(arrivals.size() == 1);
  return std::move(arrivals[0]);
}

/// Returns the next message about a rejected connection.
inline std::string next_warning(Listener& coordinator, double now = 0) {
  std::vector<std::string> warnings;
  serve_until(
      coordinator,
      [&] {
        warnings = coordinator.take_warnings();
        return !warnings.empty();
      },
      now);
  CHECK(warnings.size() == 1);
  return warnings[0];
}

inline std::future<JoinedConnection> join_async(JoinOptions request) {
  return std::async(std::launch::async, [request = std::move(request)] { return join(request); });
}

template <class Value>
bool is_ready(const std::future<Value>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// A connection to a listener that sends arbitrary bytes.
class RawPeer {
 public:
  explicit RawPeer(const Endpoint& endpoint) {
    const Address address = resolve(endpoint).addresses.at(0);
    socket_ = Fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket_.get(), address.get(), address.size) != 0)
      throw std::runtime_error("connect");
  }

  void send_bytes(std::string_view bytes) const {
    ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Returns the received bytes, at most `most`, without blocking.
  std::string receive(std::size_t most = 4096) {
    std::string bytes(most, '\0');
    const ssize_t count = ::recv(socket_.get(), bytes.data(), most, MSG_DONTWAIT);
    is_closed_ = is_closed_ || count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
    bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return bytes;
  }
  /// Returns whether receive() found that the other side has closed.
  [[nodiscard]] bool is_closed() const { return is_closed_; }
  void close() { socket_.reset(); }
  [[nodiscard]] const Fd& socket() const { return socket_; }

 private:
  Fd socket_;
  bool is_closed_ = false;
};

/// Runs the handshake until the coordinator has answered or closed, and returns all that was sent.
inline std::string run_handshake(Listener& coordinator, RawPeer& raw_peer,
                                 JoinHandshake& handshake) {
  std::string sent;
  serve_until(coordinator, [&] {
    const std::string bytes = handshake.take_output();
    raw_peer.send_bytes(bytes);
    sent += bytes;
    const std::string received = raw_peer.receive(handshake.bytes_needed());
    if (!received.empty()) handshake.take(received);
    return raw_peer.is_closed() || handshake.answer().has_value();
  });
  return sent;
}

}  // namespace trainctl::launch
