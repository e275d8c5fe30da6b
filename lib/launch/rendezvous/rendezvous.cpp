#include "launch/rendezvous/rendezvous.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/rendezvous/address.hpp"
#include "launch/rendezvous/handshake.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

namespace trainctl::launch {
namespace {

constexpr std::size_t kMaxHostBytes = 253;  // maximum length of a DNS name
constexpr std::size_t kShownEndpointBytes = 80;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  THROW(config,
        "an endpoint must be HOST:PORT, got '{0}'{1}: {2}\nhint: write an endpoint such as "
        "node1:{3} or [fd00::1]:{3}",
        printable(text.substr(0, kShownEndpointBytes)),
        text.size() > kShownEndpointBytes ? "..." : "", why, kRendezvousPort);
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Rejects only characters that no name can contain; the name service decides about the rest.
bool may_be_name(std::string_view host) {
  for (const char c : host) {
    if (!is_letter_or_digit(c) && c != '-' && c != '.' && c != '_') return false;
  }
  return true;
}

bool may_be_ipv6(std::string_view host) {
  const std::size_t scope = host.find('%');
  if (scope != std::string_view::npos && !may_be_name(host.substr(scope + 1))) return false;
  const std::string_view digits = host.substr(0, scope);
  return digits.find(':') != std::string_view::npos &&
         digits.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

std::uint16_t parse_port(std::string_view port, std::string_view text) {
  const auto value = parse_number<std::uint16_t>(port).value_or(0);
  if (value == 0)
    refuse(text, fmt::format("the port must be 1 to 65535, got '{}'",
                             printable(port.substr(0, kShownEndpointBytes))));
  return value;
}

struct Parts {
  std::string_view host;
  std::optional<std::string_view> port;
};

Parts parts_in_brackets(std::string_view text) {
  const std::size_t close = text.find(']');
  if (close == std::string_view::npos) refuse(text, "the bracket is not closed");
  const std::string_view host = text.substr(1, close - 1);
  if (!may_be_ipv6(host)) refuse(text, "the text in brackets is not an IPv6 address");
  const std::string_view rest = text.substr(close + 1);
  if (rest.empty()) return {host, std::nullopt};
  if (rest.front() != ':') refuse(text, "the bracket is not followed by ':'");
  return {host, rest.substr(1)};
}

Parts parts_of(std::string_view text) {
  if (text.starts_with('[')) return parts_in_brackets(text);
  const std::size_t colon = text.find(':');
  const std::string_view host = text.substr(0, colon);
  if (colon == std::string_view::npos) return {host, std::nullopt};
  if (text.find(':', colon + 1) != std::string_view::npos)
    refuse(text, "an IPv6 address must be in brackets");
  return {host, text.substr(colon + 1)};
}

constexpr std::size_t kDigits = 2 * Token{}.size();
constexpr std::size_t kMaxFileBytes = 4096;
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Reads one byte more than allowed, to detect a longer file.
std::string read_at_most(int fd, std::size_t limit, const std::string& label) {
  std::string text(limit + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(fd, text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    ENSURE(config, count >= 0, "cannot read the token in {}: {}", label, std::strerror(errno));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

// How long join() retries: forever (up to its time-out), some time for errors that a restart fixes,
// a short time for errors that rarely go away.
constexpr double kRetryForever = std::numeric_limits<double>::infinity();
constexpr double kRetryLongS = 20;
constexpr double kRetryShortS = 1;
constexpr double kConnectS = 5;     // for one address
constexpr double kHandshakeS = 15;  // the coordinator may be busy
constexpr double kSliceS = 0.1;     // between two checks of give_up
constexpr double kFirstPauseS = 0.05;
constexpr double kLongestPauseS = 2;

/// The reason why an attempt failed, and how long to retry in that case.
struct JoinFailure {
  ErrorKind kind;
  std::string message;
  double retry_s;
};

struct Attempt {
  std::optional<JoinedConnection> joined;
  std::optional<JoinFailure> failure;
};

JoinFailure nothing_listens(const std::string& why) {
  return {
      ErrorKind::hang,
      fmt::format("no process listens at this address ({})\nhint: check that node 0 is running, "
                  "that --rdzv-endpoint is its address, and that no firewall blocks the port",
                  why),
      kRetryForever};
}

JoinFailure unknown_host(const std::string& why) {
  return {ErrorKind::config,
          fmt::format("cannot resolve the host name: {}\nhint: check its spelling and DNS", why),
          kRetryForever};
}

JoinFailure no_answer() {
  return {ErrorKind::hang,
          "the process at this address does not answer\nhint: check that it is node 0, and that it "
          "is not suspended",
          kRetryForever};
}

// If the connection closes before node 0 has proved the token, node 0 itself may have ended.
JoinFailure closed_early(const JoinHandshake& handshake) {
  if (!handshake.has_sent_proof())
    return {ErrorKind::rank_failed,
            "each connection was closed immediately: node 0 has exited, its trainctl has another "
            "version, or another program uses this address\nhint: see the log of node 0",
            kRetryLongS};
  return {ErrorKind::config,
          "node 0 rejects the token or the run id\nhint: use the same TRAINCTL_RDZV_TOKEN or "
          "--rdzv-token-file, and the same --rdzv-id, on all nodes (see the log of node 0)",
          kRetryShortS};
}

JoinFailure not_coordinator(const Error& error) {
  return {ErrorKind::config,
          fmt::format("the process at this address is not node 0 of this run ({})\nhint: check the "
                      "port in --rdzv-endpoint and the token",
                      error.message()),
          kRetryShortS};
}

/// Returns nothing for JoinStatus::accepted. A claim may be taken by a rank that has just ended.
std::optional<JoinFailure> failure_of(const Answer& answer) {
  if (answer.status == JoinStatus::accepted) return std::nullopt;
  const bool is_taken = answer.status == JoinStatus::already_joined;
  return JoinFailure{
      ErrorKind::config,
      fmt::format("node 0 rejects this process: '{}'\nhint: {}", printable(answer.reason),
                  is_taken ? "set a different --node-rank on each node"
                           : "use the same --nnodes and trainer.devices on all nodes"),
      is_taken ? kRetryLongS : 0};
}

/// The attempts of one call of join().
class Joiner {
 public:
  Joiner(const JoinOptions& request, double end) : request_(request), end_(end) {}

  Attempt attempt() {
    const ResolvedAddresses resolved = resolve(request_.endpoint);
    if (resolved.addresses.empty()) return {{}, unknown_host(resolved.failure)};
    std::optional<JoinFailure> first;
    for (const Address& address : resolved.addresses) {
      Fd socket;
      auto failure = connect(address, socket);
      if (!failure) return authenticate(std::move(socket));
      if (!first) first = std::move(failure);
    }
    return {{}, std::move(first)};
  }

  /// Returns false if the time is over.
  bool pause(double seconds) {
    const double until = std::min(steady_clock().now() + seconds, end_);
    while (true) {
      check_give_up();
      const double left = until - steady_clock().now();
      if (left <= 0) return !is_over();
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kSliceS)));
    }
  }

  [[nodiscard]] bool is_over() const { return steady_clock().now() >= end_; }

 private:
  std::optional<JoinFailure> connect(const Address& address, Fd& socket) {
    socket = tcp_socket(address);
    if (!socket.valid() && errno == EAFNOSUPPORT) return nothing_listens(std::strerror(errno));
    ENSURE(resource, socket.valid(), "cannot connect to {}: {}", to_text(endpoint_of(address)),
           std::strerror(errno));
    int failure = ::connect(socket.get(), address.get(), address.size) == 0 ? 0 : errno;
    if (failure == EINPROGRESS) {
      const double end = std::min(end_, steady_clock().now() + kConnectS);
      if (!wait(socket, POLLOUT, end)) return nothing_listens("no answer");
      socklen_t size = sizeof failure;
      if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0) failure = errno;
    }
    if (failure != 0) return nothing_listens(std::strerror(failure));
    // Without a listener, TCP can connect a socket to itself if its own port is the destination.
    if (local_address(socket) == address)
      return nothing_listens("the socket was connected to itself");
    enable_keepalive(socket);
    return std::nullopt;
  }

  Attempt authenticate(Fd socket) {
    JoinHandshake handshake(request_, make_nonce());
    try {
      const double end = std::min(end_, steady_clock().now() + kHandshakeS);
      if (!run_handshake(socket, handshake, end)) return {{}, no_answer()};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unexpected) throw;
      return {{}, not_coordinator(error)};
    }
    if (!handshake.answer()) return {{}, closed_early(handshake)};
    if (auto failure = failure_of(*handshake.answer())) return {{}, std::move(failure)};
    const int flags = ::fcntl(socket.get(), F_GETFL);
    ::fcntl(socket.get(), F_SETFL, flags & ~O_NONBLOCK);
    std::string host = endpoint_of(local_address(socket)).host;
    return {JoinedConnection{std::move(socket), std::move(host)}, {}};
  }

  /// Returns false if `end` has passed. If it returns true without an answer, the other side has
  /// closed the connection.
  bool run_handshake(const Fd& socket, JoinHandshake& handshake, double end) {
    std::string output;
    while (handshake.bytes_needed() > 0) {
      output += handshake.take_output();
      while (!output.empty()) {
        const ssize_t sent = ::send(socket.get(), output.data(), output.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return true;
        if (sent > 0) output.erase(0, static_cast<std::size_t>(sent));
        if (sent < 0 && !wait(socket, POLLOUT, end)) return false;
      }
      if (!wait(socket, POLLIN, end)) return false;
      std::array<char, kMaxHandshakeBytes> buffer;
      const std::size_t most = std::min(buffer.size(), handshake.bytes_needed());
      const ssize_t count = ::recv(socket.get(), buffer.data(), most, 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count <= 0) return true;
      handshake.take({buffer.data(), static_cast<std::size_t>(count)});
    }
    return true;
  }

  /// Returns false if `end` has passed. Errors appear in the caller's next system call.
  bool wait(const Fd& socket, short event, double end) {
    while (true) {
      check_give_up();
      const double left = end - steady_clock().now();
      if (left <= 0) return false;
      pollfd ready{socket.get(), event, 0};
      const double slice_ms = std::ceil(std::min(left, kSliceS) * 1000);
      if (::poll(&ready, 1, static_cast<int>(slice_ms)) > 0) return true;
    }
  }

  void check_give_up() const {
    ENSURE(interrupted, !request_.give_up || !request_.give_up(), "stopped while joining {} as {}",
           printable(to_text(request_.endpoint)), to_text(request_.claim));
  }

  const JoinOptions& request_;
  double end_;
};

[[noreturn]] void fail(const JoinOptions& request, const JoinFailure& failure, double tried_s) {
  throw Error(failure.kind,
              fmt::format("cannot join the run at {} as {} (tried for {}): {}",
                          printable(to_text(request.endpoint)), to_text(request.claim),
                          human_duration(tried_s), failure.message));
}

}  // namespace

Endpoint parse_endpoint(std::string_view text) {
  const Parts parts = parts_of(text);
  if (parts.host.empty()) refuse(text, "the host is missing");
  if (parts.host.size() > kMaxHostBytes) refuse(text, "the host is too long");
  if (!may_be_ipv6(parts.host) && !may_be_name(parts.host))
    refuse(text, "the host has invalid characters");
  return {std::string(parts.host), parts.port ? parse_port(*parts.port, text) : kRendezvousPort};
}

std::string to_text(const Endpoint& endpoint) {
  const bool is_v6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", endpoint.host, is_v6 ? "]" : "", endpoint.port);
}

std::string to_text(const Claim& claim) {
  return fmt::format("{} {}", claim.role == Role::rank ? "rank" : "node", claim.number);
}

Token make_token() {
  Token token{};
  fill_with_random(token);
  return token;
}

Token parse_token(std::string_view hex, std::string_view where) {
  const std::string_view digits = trimmed(hex);
  ENSURE(config, digits.size() == kDigits,
         "{}: a rendezvous token must have {} hexadecimal digits, got {} characters\nhint: create "
         "one with `openssl rand -hex 32`",
         where, kDigits, digits.size());
  Token token{};
  for (std::size_t i = 0; i < kDigits; ++i) {
    const int value = digit_value(digits[i]);
    ENSURE(config, value >= 0,
           "{}: a rendezvous token must have {} hexadecimal digits, but character {} is not one",
           where, kDigits, i + 1);
    token[i / 2] = token[i / 2] << 4U | static_cast<std::byte>(value);
  }
  return token;
}

std::string token_digits(const Token& token) {
  std::string text;
  for (const std::byte byte : token) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

Token read_token_file(const fs::path& path) {
  const std::string label = printable(path.string());
  // Without O_NONBLOCK, opening a named pipe would block.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ENSURE(config, fd.valid(), "cannot read the token in {}: {}", label, std::strerror(errno));
  struct stat info {};
  ENSURE(config, ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode),
         "cannot read the token in {}: it is not a regular file", label);
  ENSURE(config, (info.st_mode & kOthers) == 0,
         "other users can read the token in {} (mode {:04o})\nhint: run `chmod 600` on it, and "
         "create a new token if they are not trusted",
         label, static_cast<unsigned>(info.st_mode & 07777));
  const std::string text = read_at_most(fd.get(), kMaxFileBytes, label);
  ENSURE(config, text.size() <= kMaxFileBytes, "{} is not a token file: it has more than {} bytes",
         label, kMaxFileBytes);
  return parse_token(text, label);
}

void fill_with_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::getrandom(bytes.data(), bytes.size(), 0);
    ENSURE(resource, count >= 0 || errno == EINTR, "cannot read random numbers from the kernel: {}",
           std::strerror(errno));
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

JoinedConnection join(const JoinOptions& request) {
  ENSURE(config, request.run_id.size() <= kMaxRunIdBytes,
         "--rdzv-id must have at most {1} bytes, got {0}", request.run_id.size(), kMaxRunIdBytes);
  ASSERT(request.claim.number >= 0);
  const double started = steady_clock().now();
  Joiner joiner(request, started + request.timeout_s);
  double pause_s = kFirstPauseS;
  double since = started;  // start of consecutive failures with the same retry time
  JoinFailure last{ErrorKind::hang, "the time limit was reached", 0};
  bool has_failed = false;
  std::optional<JoinFailure> gone;
  while (true) {
    Attempt attempt = joiner.attempt();
    if (attempt.joined) return std::move(*attempt.joined);
    // A coordinator that was reachable has ended: either it is restarted soon or not at all.
    if (attempt.failure->kind == ErrorKind::rank_failed) gone = attempt.failure;
    if (gone && attempt.failure->retry_s == kRetryForever) attempt.failure = gone;
    // A time-out in the final attempt is less informative than the failure before.
    const bool is_informative =
        !has_failed || !joiner.is_over() || attempt.failure->kind != ErrorKind::hang;
    const double now = steady_clock().now();
    if (is_informative) {
      if (!has_failed || last.retry_s != attempt.failure->retry_s) since = now;
      last = std::move(*attempt.failure);
      has_failed = true;
    }
    const bool may_retry = now - since + pause_s <= last.retry_s;
    if (!may_retry || !joiner.pause(pause_s)) fail(request, last, now - started);
    pause_s = std::min(pause_s * 1.5, kLongestPauseS);
  }
}

}  // namespace trainctl::launch
