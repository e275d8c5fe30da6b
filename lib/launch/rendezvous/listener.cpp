#include "base/error.hpp"
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
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::launch {
namespace {

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
