#include "base/error.hpp"
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
constexpr int kMostInPeriod = 8;
constexpr std::size_t kMostKept = 64;  // limit if the caller does not take them

/// Messages about rejected connections, limited so that they cannot flood the log: a few in ten
/// seconds, followed by the number of omitted ones.
class Refusals {
 public:
  void add(std::string sentence, double now) {
    see(now);
    if (in_period_ == 0) period_end_ = now + kPeriodS;
    if (++in_period_ <= kMostInPeriod && sentences_.size() < kMostKept)
      sentences_.push_back(std::move(sentence));
  }

  /// Ends a period whose time is over.
  void see(double now) {
    if (in_period_ == 0 || now < period_end_) return;
    const int besides = in_period_ - kMostInPeriod;
    in_period_ = 0;
    if (besides <= 0 || sentences_.size() >= kMostKept) return;
    sentences_.push_back(fmt::format("{} more connections were rejected within {:g} s",
                                     with_thousands(besides), kPeriodS));
  }

  std::vector<std::string> take() { return std::exchange(sentences_, {}); }

 private:
  std::vector<std::string> sentences_;
  double period_end_ = 0;
  int in_period_ = 0;
};

constexpr std::size_t kMaxGuests = 1024;
constexpr std::size_t kMaxAcceptedAtOnce = 64;
constexpr double kGuestHandshakeS = 5;
constexpr double kNoDescriptorPauseS = 1;

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/// Unauthenticated connections may use half of the descriptors; the rest is for the supervisor.
std::size_t most_guests() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return kMaxGuests;
  return std::clamp<std::size_t>(files.rlim_cur / 2, 1, kMaxGuests);
}

/// A connection that has not proved the token.
struct Guest {
  Fd socket;
  std::string peer;
  double since;
  HeadHandshake handshake;
  std::string output;
  bool answered = false;
  bool welcome = false;
};

bool has_connection(const Guest& guest) { return guest.socket.valid(); }

// Returns false if the peer has closed the connection.
bool receive(Guest& guest) {
  while (guest.handshake.wanted() > 0) {
    std::array<char, kMaxHandshakeBytes> buffer;
    const std::size_t most = std::min(buffer.size(), guest.handshake.wanted());
    const ssize_t count = ::recv(guest.socket.get(), buffer.data(), most, 0);
    if (count < 0) return try_again();
    if (count == 0) return false;
    guest.handshake.take({buffer.data(), static_cast<std::size_t>(count)});
    if (guest.handshake.proved()) return true;
  }
  return true;
}

bool send(Guest& guest) {
  guest.output += guest.handshake.take_output();
  while (!guest.output.empty()) {
    const ssize_t sent =
        ::send(guest.socket.get(), guest.output.data(), guest.output.size(), MSG_NOSIGNAL);
    if (sent < 0) return try_again();
    guest.output.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

std::string joining_part(int first, int last) {
  if (first > last) return "none can join";
  return first == last ? fmt::format("only {} can join", first)
                       : fmt::format("{} to {} can join", first, last);
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
  std::size_t most = most_guests();
  std::vector<Guest> guests{};
  std::map<Claim, std::string> taken{};  // the peer that made the claim
  std::vector<Arrival> arrivals{};
  Refusals refusals{};
  double accepts_from = 0;
  bool accepting = true;

  // The machine's own name often resolves to 127.0.1.1, which other machines cannot connect to.
  void note_limits() {
    const std::string& host = options.endpoint.host;
    const bool is_local = reach_of(local_address(socket)) == Reach::this_machine;
    if (!is_local || is_numeric(host) || host == "localhost" || options.nodes < 2) return;
    refusals.add(fmt::format("{} resolves to {}, which other machines cannot reach\nhint: set "
                             "--rdzv-endpoint to a network address if nodes run on other machines",
                             printable(host), endpoint.host),
                 0);
  }

  void accept_some(double now) {
    for (std::size_t i = 0; i < kMaxAcceptedAtOnce && guests.size() < most; ++i) {
      Address peer;
      Fd fresh(::accept4(socket.get(), peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fresh.valid() &&
          (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        // poll() keeps reporting the socket; without a pause the supervisor would be busy with it.
        accepts_from = now + kNoDescriptorPauseS;
        refusals.add(fmt::format("cannot accept a connection yet: {}\nhint: raise `ulimit -n`",
                                 std::strerror(errno)),
                     now);
        return;
      }
      if (!fresh.valid() && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (!fresh.valid()) continue;  // the peer closed it before accept()
      make_lively(fresh);
      guests.push_back({std::move(fresh),
                        to_text(endpoint_of(peer)),
                        now,
                        HeadHandshake(options.token, options.run_id, make_nonce()),
                        {}});
    }
  }

  // Returns false if the guest has disconnected or has become an arrival.
  bool serve(Guest& guest, double now) {
    bool stays = false;
    try {
      stays = converse(guest, now);
    } catch (const Error& error) {
      turn_away(guest, error.what(), now);
    }
    if (stays && now - guest.since > kGuestHandshakeS) {
      turn_away(guest, fmt::format("it did not prove the token within {:g} s", kGuestHandshakeS),
                now);
      stays = false;
    }
    if (!stays && guest.welcome && has_connection(guest))
      taken.erase(*guest.handshake.proved());  // the answer could not be sent
    return stays;
  }

  bool converse(Guest& guest, double now) {
    const bool connected = receive(guest);
    if (guest.handshake.proved() && !guest.answered) {
      const Claim claim = *guest.handshake.proved();
      const Answer answer = judge(claim);
      guest.answered = true;
      guest.welcome = answer.verdict == Verdict::welcome;
      guest.handshake.answer(answer);
      if (guest.welcome) taken[claim] = guest.peer;
      if (!guest.welcome) turn_away(guest, answer.reason, now);
    }
    if (!connected || !send(guest)) {
      if (!guest.answered) turn_away(guest, "it disconnected before it proved the token", now);
      return false;
    }
    if (!guest.answered || !guest.output.empty()) return true;
    if (guest.welcome) receive_arrival(guest);
    return false;
  }

  [[nodiscard]] Answer judge(const Claim& claim) const {
    const int ranks_of_node = options.world_size / options.nodes;
    const bool is_rank = claim.role == Role::rank;
    const int first = is_rank ? ranks_of_node : 1;
    const int end = is_rank ? options.world_size : options.nodes;
    if (claim.number < first || claim.number >= end)
      return {Verdict::out_of_range,
              fmt::format("{} cannot join: of the {} of this run, {}", to_text(claim),
                          fmt::format("{} {}", end, is_rank ? "ranks" : "nodes"),
                          joining_part(first, end - 1))};
    const auto found = taken.find(claim);
    if (found == taken.end()) return {};
    return {Verdict::taken,
            fmt::format("{} has already joined, from {}", to_text(claim), found->second)};
  }

  void receive_arrival(Guest& guest) {
    arrivals.push_back({*guest.handshake.proved(), std::move(guest.socket), guest.peer});
  }

  void turn_away(const Guest& guest, std::string_view why, double now) {
    refusals.add(fmt::format("{} was rejected: {}", guest.peer, why), now);
  }
};

Listener::Listener(Options options) {
  check(options);
  Listening listening = listen_at(options);
  state_ = std::make_unique<State>(State{.options = std::move(options),
                                         .socket = std::move(listening.socket),
                                         .endpoint = endpoint_of(listening.address)});
  state_->note_limits();
}

Listener::~Listener() = default;
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;

const Endpoint& Listener::endpoint() const { return state_->endpoint; }

void Listener::append_to(std::vector<pollfd>& polls) const {
  if (state_->accepting && state_->guests.size() < state_->most)
    polls.push_back({state_->socket.get(), POLLIN, 0});
  for (const Guest& guest : state_->guests) {
    polls.push_back(
        {guest.socket.get(), static_cast<short>(guest.output.empty() ? POLLIN : POLLOUT), 0});
  }
}

void Listener::serve(double now) {
  State& state = *state_;
  state.refusals.see(now);
  if (now >= state.accepts_from) state.accept_some(now);
  state.accepting = now >= state.accepts_from;
  std::erase_if(state.guests, [&](Guest& guest) { return !state.serve(guest, now); });
}

std::vector<Listener::Arrival> Listener::take_arrivals() {
  return std::exchange(state_->arrivals, {});
}

std::vector<std::string> Listener::take_refusals() { return state_->refusals.take(); }

void Listener::release(const Claim& claim) { state_->taken.erase(claim); }

}  // namespace trainctl::launch
