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

// How the supervisors of several nodes find each other: the head listens on one address, the others
// join it over TCP and prove that they know the token of the run. What the connections carry
// afterwards is neither encrypted nor authenticated any more: the network has to be a private one.

namespace trainctl::launch {

/// What a connection speaks for: one rank (the store protocol follows) or a whole node (its control
/// link).
enum class Role : std::uint8_t { rank = 1, node };

/// Whom a connection speaks for; each is claimed once.
struct Claim {
  Role role = Role::rank;
  int number = 0;
  friend auto operator<=>(const Claim&, const Claim&) = default;
};

/// "rank 3", "node 1".
std::string to_text(const Claim& claim);

inline constexpr std::uint16_t kRendezvousPort = 29400;

struct Endpoint {
  std::string host;  // a name or an address, without brackets
  std::uint16_t port = kRendezvousPort;
};

/// "10.0.0.1:29500", "[::1]:29500", "node1"; without a port kRendezvousPort. Error(config).
Endpoint parse_endpoint(std::string_view text);
/// As parse_endpoint() reads it: "[::1]:29500".
std::string to_text(const Endpoint& endpoint);

/// The secret of one run. It is never part of an error or a log.
using Token = std::array<std::byte, 32>;

/// Fresh from the kernel's random numbers. Error(resource).
Token make_token();
/// 64 hex digits, white space around them aside. Error(config) says `where` they came from and
/// never what they were.
Token parse_token(std::string_view hex, std::string_view where);
/// As parse_token() reads it.
std::string token_digits(const Token& token);
/// Error(config) where there is no token, or the group or others may read the file.
Token read_token_file(const fs::path& path);
/// Mode 0600, whole or not at all; takes the place of a file that is there. Error(resource).
void write_token_file(const fs::path& path, const Token& token);

/// Asked a few times a second during a wait; true ends it with Error(interrupted).
using GiveUp = std::function<bool()>;

/// The head's side: accepts who knows the token. Driven by the supervisor's poll loop; never waits
/// once it is made. At most 1,024 connections are under way (fewer where few descriptors may be
/// open), each with 5 s and less than a kilobyte, whoever is at the other end.
class Listener {
 public:
  struct Options {
    Endpoint endpoint;  // port 0: any that is free
    Token token{};
    std::string run_id;        // at most 256 bytes
    int world_size = 1;        // a multiple of `nodes`
    int nodes = 1;             // node 0 is the head: neither it nor its ranks can be claimed
    bool any_address = false;  // public addresses, too (--i-know)
    bool other_hosts = false;  // some nodes are surely not on this machine: see below
    double port_wait_s = 10;   // for a port that is taken
    GiveUp give_up{};
  };

  /// Listens on exactly that address, a name's first that will do. With `other_hosts` no loopback
  /// address will do for a name: where it has no other, the only network address of this machine
  /// takes its place. Error(config): the address is public, stands for all addresses, cannot be
  /// reached by the other hosts, or belongs to another machine. Error(resource): the port is
  /// still taken after `port_wait_s`; names its owner where /proc tells.
  explicit Listener(Options options);
  ~Listener();
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;

  /// Where it listens: a numeric address and the real port.
  [[nodiscard]] const Endpoint& endpoint() const;
  /// What to poll for.
  void append_to(std::vector<pollfd>& polls) const;
  /// Serves whoever is ready, and drops who has had his time; to be called a few times a second.
  /// `now` in seconds of a steady clock.
  void serve(double now);

  struct Arrival {
    Claim claim;
    Fd socket;         // non-blocking, close-on-exec, without delay, kept alive; nothing read ahead
    std::string peer;  // "10.0.0.7:41234"
  };
  /// Who has proved the token since the last call; the claim is taken until release().
  std::vector<Arrival> take_arrivals();
  /// Sentences for the log, a bounded number a time: who was turned away and why, and what may keep
  /// others from joining.
  std::vector<std::string> take_refusals();
  /// The connection of that claim is gone: it may be claimed again.
  void release(const Claim& claim);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What one connection to the head needs.
struct Join {
  Endpoint endpoint;
  Token token{};
  std::string run_id;
  Claim claim;
  double timeout_s = 300;  // for the head to listen
  GiveUp give_up{};
};

struct Joined {
  Fd socket;                  // blocking, close-on-exec, without delay, kept alive
  std::string local_address;  // numeric, of this side: what other nodes reach this one by
};

/// Connects to the head and proves the token; tries again until `timeout_s` while nobody listens.
/// Error(hang): nobody did, or nobody answered. Error(rank_failed): the head closed each
/// connection, or closed one and was not there again within 20 s. Error(config): the name is
/// unknown, the token or run id is another one, or the claim is taken or out of range. Each names
/// the endpoint and what to check.
Joined join(const Join& request);

/// The kernel's random numbers, fit for secrets. Error(resource).
void fill_with_random(std::span<std::byte> bytes);

}  // namespace trainctl::launch
