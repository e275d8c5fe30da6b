#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine/procfs.hpp"
#include "base/strings.hpp"
#include "launch/rendezvous/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
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

}  // namespace trainctl::launch
