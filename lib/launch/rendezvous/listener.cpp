#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine/procfs.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/rendezvous/address.hpp"
#include "launch/rendezvous/handshake.hpp"
#include "launch/rendezvous/rendezvous.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace trainctl::launch {
namespace {

struct SocketOwner {
  std::string user;
  std::string inode;
};

// Returns the format of /proc/net/tcp: the words of the address in memory order.
std::string address_digits(const Address& address) {
  std::array<std::uint32_t, 4> words{};
  std::size_t count = 4;
  if (address.storage.ss_family == AF_INET) {
    count = 1;
    std::memcpy(words.data(), &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr, 4);
  } else {
    std::memcpy(words.data(), &reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr,
                16);
  }
  std::string digits;
  for (std::size_t i = 0; i < count; ++i) digits += fmt::format("{:08X}", words[i]);
  return digits;
}

bool is_bound_to(const std::string& local, const Address& address) {
  const std::string port = fmt::format(":{:04X}", endpoint_of(address).port);
  if (!local.ends_with(port)) return false;
  const std::string at = local.substr(0, local.size() - port.size());
  return at == address_digits(address) || at.find_first_not_of('0') == std::string::npos;
}

// A listening socket has priority over a connection on the same port.
std::optional<SocketOwner> find_owner(const char* table, const Address& address) {
  constexpr const char* kListening = "0A";
  std::ifstream lines(table);
  std::optional<SocketOwner> found;
  std::string line;
  std::getline(lines, line);  // skip the column headers
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retries, timeout;
    SocketOwner owner;
    words >> slot >> local >> remote >> state >> queues >> timer >> retries >> owner.user >>
        timeout >> owner.inode;
    if (!words || !is_bound_to(local, address)) continue;
    if (state == kListening) return owner;
    if (!found && owner.inode != "0") found = owner;
  }
  return found;
}

bool has_socket(const fs::path& descriptors, const std::string& link) {
  return std::ranges::any_of(paths_in(descriptors), [&](const fs::path& descriptor) {
    std::error_code gone;
    return fs::read_symlink(descriptor, gone) == link;
  });
}

/// Returns an empty text if the process is not visible, for example another user's.
std::string process_with(const std::string& inode) {
  const std::string link = fmt::format("socket:[{}]", inode);
  for (const fs::path& process : paths_in("/proc")) {
    const std::string pid = process.filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!has_socket(process / "fd", link)) continue;
    return fmt::format("process {} ({})", pid, printable(first_line_of(process / "comm")));
  }
  return {};
}

/// Returns the owner of the address and port on this machine, as far as /proc shows it: "process
/// 4711 (python3)", "a process of user id 1000"; empty if none is visible.
std::string owner_of_port(const Address& address) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto owner = find_owner(table, address);
    if (!owner) continue;
    const std::string process = process_with(owner->inode);
    return process.empty() ? fmt::format("a process of user id {}", owner->user) : process;
  }
  return {};
}

constexpr int kBacklog = 1024;
constexpr double kPauseS = 0.1;

/// The reason why an address cannot be listened on.
struct ListenFailure {
  ErrorKind kind = ErrorKind::config;
  std::string message;
  bool may_recover = false;
  std::optional<Address> in_use;  // the address whose owner to report
};

struct BindAttempt {
  std::optional<ListeningSocket> listening;
  ListenFailure failure;
};

std::optional<ListenFailure> address_restriction(const Address& address,
                                                 const Listener::Options& options) {
  const std::string host = endpoint_of(address).host;
  switch (scope_of(address)) {
    case AddressScope::loopback:
    case AddressScope::private_network: return std::nullopt;
    case AddressScope::any:
      return ListenFailure{
          .message = fmt::format(
              "{} means all addresses of a machine, but other nodes need a single address to "
              "connect to\nhint: use the address at which other nodes reach node 0",
              host)};
    case AddressScope::multicast:
      return ListenFailure{.message = fmt::format("{} is not the address of a machine", host)};
    case AddressScope::public_network: break;
  }
  if (options.any_address) return std::nullopt;
  return ListenFailure{
      .message =
          fmt::format("{} is a public address, and connections between nodes are not encrypted\n"
                      "hint: use a private address, or --allow-public-address if a firewall "
                      "protects the port",
                      host)};
}

ListenFailure failure_of(int cause, const Address& address) {
  const Endpoint at = endpoint_of(address);
  if (cause == EADDRINUSE)
    return {ErrorKind::resource, fmt::format("port {} of {} is in use", at.port, at.host), true,
            address};
  if (cause == EADDRNOTAVAIL || cause == EAFNOSUPPORT)
    return {.message =
                fmt::format("{} is not an address of this machine ({})\nhint: set the endpoint to "
                            "an address of node 0, and start node 0 there",
                            at.host, std::strerror(cause))};
  return {.kind = ErrorKind::resource,
          .message = fmt::format("{} (port {} of {})", std::strerror(cause), at.port, at.host)};
}

// On Linux SO_REUSEADDR allows a port whose last connections are in TIME_WAIT, but never one with a
// listener. With port 0 it could return a port that is in use.
int bind_and_listen(const Fd& socket, const Address& address) {
  const int yes = 1;
  const bool is_named = endpoint_of(address).port != 0;
  if (is_named) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.storage.ss_family == AF_INET6)
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  if (::bind(socket.get(), address.get(), address.size) != 0) return errno;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes,
               sizeof yes);  // inherited by its connections
  return ::listen(socket.get(), kBacklog) == 0 ? 0 : errno;
}

BindAttempt bind_to(const Address& address, const Listener::Options& options) {
  if (auto failure = address_restriction(address, options)) return {{}, std::move(*failure)};
  Fd socket = tcp_socket(address);
  const int cause = socket.valid() ? bind_and_listen(socket, address) : errno;
  if (cause != 0) return {{}, failure_of(cause, address)};
  const Address bound = local_address(socket);
  return {ListeningSocket{std::move(socket), bound}, {}};
}

bool is_local(const Address& address) { return scope_of(address) == AddressScope::loopback; }

// If the machine's name resolves to a loopback address for itself, often 127.0.1.1, other machines
// know it by the address of an interface. With several interfaces the user must choose.
ResolvedAddresses resolve_to_network(const Listener::Options& options) {
  std::vector<Address> v4;
  std::vector<Address> v6;
  for (const std::string& text : interface_addresses()) {
    for (const Address& address : resolve({text, options.endpoint.port}).addresses) {
      if (is_local(address)) continue;
      (address.storage.ss_family == AF_INET ? v4 : v6).push_back(address);
    }
  }
  const std::vector<Address>& found = v4.empty() ? v6 : v4;
  if (found.size() == 1) return {found, {}};
  return {{},
          fmt::format(
              "{} resolves only to a loopback address on this machine, which has {}\nhint: set "
              "--rdzv-endpoint to the address at which other machines reach this machine",
              printable(options.endpoint.host), found.empty() ? "no network" : "several networks")};
}

// A loopback address that the user specifies is used.
ResolvedAddresses resolve_endpoint(const Listener::Options& options) {
  const std::string& host = options.endpoint.host;
  ResolvedAddresses resolved = resolve(options.endpoint);
  const bool may_be_local = !options.other_hosts || is_numeric(host) || host == "localhost";
  if (may_be_local || resolved.addresses.empty()) return resolved;
  std::erase_if(resolved.addresses, is_local);
  return resolved.addresses.empty() ? resolve_to_network(options) : resolved;
}

// The reported failure is the first that may go away, or else the first one.
BindAttempt attempt(const Listener::Options& options) {
  const ResolvedAddresses resolved = resolve_endpoint(options);
  if (resolved.addresses.empty())
    return {{},
            {.message = fmt::format("cannot resolve the name {}: {}",
                                    printable(options.endpoint.host), resolved.failure),
             .may_recover = resolve(options.endpoint).addresses.empty()}};
  std::optional<ListenFailure> reported;
  for (const Address& address : resolved.addresses) {
    BindAttempt one = bind_to(address, options);
    if (one.listening) return one;
    if (!reported || (one.failure.may_recover && !reported->may_recover))
      reported = std::move(one.failure);
  }
  return {{}, std::move(*reported)};
}

[[noreturn]] void fail(const ListenFailure& failure, const Listener::Options& options) {
  std::string owner;
  if (failure.in_use) {
    const std::string name = owner_of_port(*failure.in_use);
    owner = fmt::format("{}{} and did not become free within {:g} s\nhint: choose another port",
                        name.empty() ? "" : " by ", name, options.port_wait_s);
  }
  throw Error(failure.kind,
              fmt::format("cannot listen for other nodes at {}: {}{}",
                          printable(to_text(options.endpoint)), failure.message, owner));
}

constexpr double kPeriodS = 10;
constexpr int kMaxPerPeriod = 8;
constexpr std::size_t kMaxKept = 64;  // limit if the caller does not take them

/// Messages about rejected connections, limited so that they cannot flood the log: a few in ten
/// seconds, followed by the number of omitted ones.
class ConnectionWarnings {
 public:
  void add(std::string message, double now) {
    end_period(now);
    if (in_period_ == 0) period_end_ = now + kPeriodS;
    if (++in_period_ <= kMaxPerPeriod && messages_.size() < kMaxKept)
      messages_.push_back(std::move(message));
  }

  /// Ends a period whose time is over.
  void end_period(double now) {
    if (in_period_ == 0 || now < period_end_) return;
    const int omitted = in_period_ - kMaxPerPeriod;
    in_period_ = 0;
    if (omitted <= 0 || messages_.size() >= kMaxKept) return;
    messages_.push_back(fmt::format("{} more connections were rejected within {:g} s",
                                    with_thousands(omitted), kPeriodS));
  }

  std::vector<std::string> take() { return std::exchange(messages_, {}); }

 private:
  std::vector<std::string> messages_;
  double period_end_ = 0;
  int in_period_ = 0;
};

constexpr std::size_t kMaxPending = 1024;
constexpr std::size_t kMaxAcceptedAtOnce = 64;
constexpr double kHandshakeTimeoutS = 5;
constexpr double kNoDescriptorPauseS = 1;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/// Unauthenticated connections may use half of the descriptors; the rest is for the supervisor.
std::size_t max_pending_peers() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
    return kMaxPending;
  return std::clamp<std::size_t>(files.rlim_cur / 2, 1, kMaxPending);
}

/// A connection that has not proved the token.
struct PendingPeer {
  Fd socket;
  std::string address;
  double since;
  CoordinatorHandshake handshake;
  std::string output;
  bool answered = false;
  bool accepted = false;
};

bool has_connection(const PendingPeer& peer) { return peer.socket.valid(); }

// Returns false if the peer has closed the connection.
bool receive(PendingPeer& peer) {
  while (peer.handshake.bytes_needed() > 0) {
    std::array<char, kMaxHandshakeBytes> buffer;
    const std::size_t most = std::min(buffer.size(), peer.handshake.bytes_needed());
    const ssize_t count = ::recv(peer.socket.get(), buffer.data(), most, 0);
    if (count < 0) return would_block();
    if (count == 0) return false;
    peer.handshake.take({buffer.data(), static_cast<std::size_t>(count)});
    if (peer.handshake.proved_claim()) return true;
  }
  return true;
}

bool send(PendingPeer& peer) {
  peer.output += peer.handshake.take_output();
  while (!peer.output.empty()) {
    const ssize_t sent =
        ::send(peer.socket.get(), peer.output.data(), peer.output.size(), MSG_NOSIGNAL);
    if (sent < 0) return would_block();
    peer.output.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

std::string joinable_range(const char* noun, int first, int last) {
  if (first > last) return "no other can join";
  return first == last ? fmt::format("only {} {} can join", noun, first)
                       : fmt::format("only {}s {} to {} can join", noun, first, last);
}

void check(const Listener::Options& options) {
  ASSERT(options.nodes >= 1 && options.world_size >= 1);
  ASSERT(options.world_size % options.nodes == 0);
  ENSURE(config, options.run_id.size() <= kMaxRunIdBytes,
         "--rdzv-id must have at most {1} bytes, got {0}", options.run_id.size(), kMaxRunIdBytes);
}

}  // namespace

bool is_numeric(const std::string& host) {
  return host.find(':') != std::string::npos ||
         host.find_first_not_of("0123456789.") == std::string::npos;
}

ListeningSocket listen_at(const Listener::Options& options) {
  const double end = steady_clock().now() + options.port_wait_s;
  while (true) {
    BindAttempt one = attempt(options);
    if (one.listening) return std::move(*one.listening);
    if (!one.failure.may_recover || steady_clock().now() >= end) fail(one.failure, options);
    ENSURE(interrupted, !options.give_up || !options.give_up(),
           "stopped while waiting to listen at {}", printable(to_text(options.endpoint)));
    std::this_thread::sleep_for(std::chrono::duration<double>(kPauseS));
  }
}

struct Listener::State {
  Options options;
  Fd socket;
  Endpoint endpoint;
  std::size_t max_pending = max_pending_peers();
  std::vector<PendingPeer> pending{};
  std::map<Claim, std::string> claimed{};  // the peer that made the claim
  std::vector<Arrival> arrivals{};
  ConnectionWarnings warnings{};
  double accepts_from = 0;
  bool accepting = true;

  // The machine's own name often resolves to 127.0.1.1, which other machines cannot connect to.
  void warn_if_unreachable() {
    const std::string& host = options.endpoint.host;
    const bool is_local = scope_of(local_address(socket)) == AddressScope::loopback;
    if (!is_local || is_numeric(host) || host == "localhost" || options.nodes < 2) return;
    warnings.add(fmt::format("{} resolves to {}, which other machines cannot reach\nhint: set "
                             "--rdzv-endpoint to a network address if nodes run on other machines",
                             printable(host), endpoint.host),
                 0);
  }

  void accept_connections(double now) {
    for (std::size_t i = 0; i < kMaxAcceptedAtOnce && pending.size() < max_pending; ++i) {
      Address from;
      Fd accepted_socket(
          ::accept4(socket.get(), from.get(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!accepted_socket.valid() &&
          (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        // poll() keeps reporting the socket; without a pause the supervisor would be busy with it.
        accepts_from = now + kNoDescriptorPauseS;
        warnings.add(fmt::format("cannot accept a connection yet: {}\nhint: raise `ulimit -n`",
                                 std::strerror(errno)),
                     now);
        return;
      }
      if (!accepted_socket.valid() && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (!accepted_socket.valid()) continue;  // the peer closed it before accept()
      enable_keepalive(accepted_socket);
      pending.push_back({std::move(accepted_socket),
                         to_text(endpoint_of(from)),
                         now,
                         CoordinatorHandshake(options.token, options.run_id, make_nonce()),
                         {}});
    }
  }

  // Returns false if the peer has disconnected or has become an arrival.
  bool serve(PendingPeer& peer, double now) {
    bool keep = false;
    try {
      keep = run_handshake(peer, now);
    } catch (const Error& error) {
      reject(peer, error.what(), now);
    }
    if (keep && now - peer.since > kHandshakeTimeoutS) {
      reject(peer, fmt::format("it did not authenticate within {:g} s", kHandshakeTimeoutS), now);
      keep = false;
    }
    if (!keep && peer.accepted && has_connection(peer))
      claimed.erase(*peer.handshake.proved_claim());  // the answer could not be sent
    return keep;
  }

  bool run_handshake(PendingPeer& peer, double now) {
    const bool connected = receive(peer);
    if (peer.handshake.proved_claim() && !peer.answered) {
      const Claim claim = *peer.handshake.proved_claim();
      const Answer answer = check_claim(claim);
      peer.answered = true;
      peer.accepted = answer.status == JoinStatus::accepted;
      peer.handshake.answer(answer);
      if (peer.accepted) claimed[claim] = peer.address;
      if (!peer.accepted) reject(peer, answer.reason, now);
    }
    if (!connected || !send(peer)) {
      if (!peer.answered) reject(peer, "it disconnected before it authenticated", now);
      return false;
    }
    if (!peer.answered || !peer.output.empty()) return true;
    if (peer.accepted) add_arrival(peer);
    return false;
  }

  [[nodiscard]] Answer check_claim(const Claim& claim) const {
    const int ranks_of_node = options.world_size / options.nodes;
    const bool is_rank = claim.role == Role::rank;
    const char* noun = is_rank ? "rank" : "node";
    const int first = is_rank ? ranks_of_node : 1;
    const int end = is_rank ? options.world_size : options.nodes;
    if (claim.number < first || claim.number >= end)
      return {JoinStatus::out_of_range,
              fmt::format("{} cannot join: this run has {} {}{}, and {}", to_text(claim), end, noun,
                          plural(end), joinable_range(noun, first, end - 1))};
    const auto found = claimed.find(claim);
    if (found == claimed.end()) return {};
    return {JoinStatus::already_joined,
            fmt::format("{} has already joined, from {}", to_text(claim), found->second)};
  }

  void add_arrival(PendingPeer& peer) {
    arrivals.push_back({*peer.handshake.proved_claim(), std::move(peer.socket), peer.address});
  }

  void reject(const PendingPeer& peer, std::string_view why, double now) {
    warnings.add(fmt::format("{} was rejected: {}", peer.address, why), now);
  }
};

Listener::Listener(Options options) {
  check(options);
  ListeningSocket listening = listen_at(options);
  state_ = std::make_unique<State>(State{.options = std::move(options),
                                         .socket = std::move(listening.socket),
                                         .endpoint = endpoint_of(listening.address)});
  state_->warn_if_unreachable();
}

Listener::~Listener() = default;
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;

const Endpoint& Listener::endpoint() const { return state_->endpoint; }

void Listener::append_to(std::vector<pollfd>& polls) const {
  if (state_->accepting && state_->pending.size() < state_->max_pending)
    polls.push_back({state_->socket.get(), POLLIN, 0});
  for (const PendingPeer& peer : state_->pending) {
    polls.push_back(
        {peer.socket.get(), static_cast<short>(peer.output.empty() ? POLLIN : POLLOUT), 0});
  }
}

void Listener::serve(double now) {
  State& state = *state_;
  state.warnings.end_period(now);
  if (now >= state.accepts_from) state.accept_connections(now);
  state.accepting = now >= state.accepts_from;
  std::erase_if(state.pending, [&](PendingPeer& peer) { return !state.serve(peer, now); });
}

std::vector<Listener::Arrival> Listener::take_arrivals() {
  return std::exchange(state_->arrivals, {});
}

std::vector<std::string> Listener::take_warnings() { return state_->warnings.take(); }

void Listener::release(const Claim& claim) { state_->claimed.erase(claim); }

}  // namespace trainctl::launch
