#pragma once

#include "base/files.hpp"

#include <poll.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// How the supervisors of several nodes find each other: the coordinator (node 0)
// listens on one address, the others connect over TCP and prove that they know the run's token. The
// connections are neither encrypted nor authenticated afterwards: the network must be private.

namespace trainctl::launch {

/// The purpose of a connection: one rank (the store protocol follows) or a whole node (its control
/// link).
enum class Role : std::uint8_t { rank = 1, node };

/// The rank or node that a connection is for; each can be claimed once at a time.
struct Claim {
  Role role = Role::rank;
  int number = 0;
  friend auto operator<=>(const Claim&, const Claim&) = default;
};

/// Returns "rank 3" or "node 1".
std::string to_text(const Claim& claim);

inline constexpr std::uint16_t kRendezvousPort = 29400;

struct Endpoint {
  std::string host;  // name or address, without brackets
  std::uint16_t port = kRendezvousPort;
};

/// Parses "10.0.0.1:29500", "[::1]:29500" or "node1" (with kRendezvousPort). Throws Error(config).
Endpoint parse_endpoint(std::string_view text);
/// Returns a text that parse_endpoint() reads: "[::1]:29500".
std::string to_text(const Endpoint& endpoint);

/// The secret of one run. It never appears in errors or logs.
using Token = std::array<std::byte, 32>;

/// Generates a token from the kernel's random numbers. Throws Error(resource).
Token make_token();
/// Parses 64 hex digits with optional surrounding white space. Throws Error(config) that names
/// `where` the digits came from, but never the digits.
Token parse_token(std::string_view hex, std::string_view where);
/// Returns a text that parse_token() reads.
std::string token_digits(const Token& token);
/// Reads a token. Throws Error(config) if the file has none, or if group or others can read it.
Token read_token_file(const fs::path& path);

/// Called a few times per second during a wait; true ends the wait with Error(interrupted).
using GiveUp = std::function<bool()>;

/// The coordinator's listener: accepts peers that know the token. Driven by the supervisor's poll
/// loop; only the constructor blocks. At most 1,024 unauthenticated connections exist at a time
/// (fewer with a low descriptor limit), each limited to 5 s and less than a kilobyte.
class Listener {
 public:
  struct Options {
    Endpoint endpoint;  // port 0: any free port
    Token token{};
    std::string run_id;        // at most 256 bytes
    int world_size = 1;        // a multiple of `nodes`
    int nodes = 1;             // node 0 is the coordinator: it and its ranks cannot be claimed
    bool any_address = false;  // allow public addresses
    bool other_hosts = false;  // some nodes are on other machines: see below
    double port_wait_s = 10;   // how long to wait for a port in use
    GiveUp give_up{};
  };

  /// Listens on exactly one address, the first suitable one of a name. With `other_hosts` a
  /// loopback address is not suitable for a name; if the name has no other address, the machine's
  /// only network address is used. Throws Error(config) if the address is public, a wildcard,
  /// unreachable for the other hosts, or of another machine. Throws Error(resource) if the port is
  /// still in use after `port_wait_s`, with its owner if /proc shows it.
  explicit Listener(Options options);
  ~Listener();
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;

  /// Returns the numeric address and the assigned port.
  [[nodiscard]] const Endpoint& endpoint() const;
  /// Adds the descriptors and events to poll for.
  void append_to(std::vector<pollfd>& polls) const;
  /// Serves connections that are ready and drops those whose time is over. Must be called a few
  /// times per second. `now` is in seconds of a steady clock.
  void serve(double now);

  struct Arrival {
    Claim claim;
    Fd socket;         // non-blocking, close-on-exec, TCP_NODELAY, keep-alive; no data read ahead
    std::string peer;  // "10.0.0.7:41234"
  };
  /// Returns the peers that proved the token since the last call. A claim is taken until release().
  std::vector<Arrival> take_arrivals();
  /// Returns a bounded number of messages for the log: rejected connections with the reason, and
  /// problems that can keep nodes from joining.
  std::vector<std::string> take_warnings();
  /// Reports that the connection of a claim has closed, so that it can be claimed again.
  void release(const Claim& claim);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The parameters of a connection to the coordinator.
struct JoinOptions {
  Endpoint endpoint;
  Token token{};
  std::string run_id;
  Claim claim;
  double timeout_s = 300;  // for the coordinator to listen
  GiveUp give_up{};
};

struct JoinedConnection {
  Fd socket;                  // blocking, close-on-exec, TCP_NODELAY, keep-alive
  std::string local_address;  // numeric address of this side, by which other nodes can reach it
};

/// Connects to the coordinator and proves the token; retries until `timeout_s` while nothing
/// listens. Throws Error(hang) if nothing listened or answered, Error(rank_failed) if the
/// coordinator closed each connection, or closed one and did not return within 20 s, Error(config)
/// if the name is unknown, the token or run id differs, or the claim is taken or out of range. Each
/// names the endpoint and what to check.
JoinedConnection join(const JoinOptions& request);

/// Fills the bytes from the kernel's cryptographic random numbers. Throws Error(resource).
void fill_with_random(std::span<std::byte> bytes);

}  // namespace trainctl::launch
