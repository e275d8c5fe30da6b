#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine/procfs.hpp"
#include "base/strings.hpp"
#include "launch/rendezvous/address.hpp"

#include <fmt/format.h>

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

struct Holder {
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

bool holds(const std::string& local, const Address& address) {
  const std::string port = fmt::format(":{:04X}", endpoint_of(address).port);
  if (!local.ends_with(port)) return false;
  const std::string at = local.substr(0, local.size() - port.size());
  return at == address_digits(address) || at.find_first_not_of('0') == std::string::npos;
}

// A listening socket has priority over a connection on the same port.
std::optional<Holder> holder_in(const char* table, const Address& address) {
  constexpr const char* kListening = "0A";
  std::ifstream lines(table);
  std::optional<Holder> found;
  std::string line;
  std::getline(lines, line);  // skip the column headers
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retries, timeout;
    Holder holder;
    words >> slot >> local >> remote >> state >> queues >> timer >> retries >> holder.user >>
        timeout >> holder.inode;
    if (!words || !holds(local, address)) continue;
    if (state == kListening) return holder;
    if (!found && holder.inode != "0") found = holder;
  }
  return found;
}

bool has_socket(const fs::path& descriptors, const std::string& link) {
  std::error_code unseen;
  for (fs::directory_iterator it(descriptors, unseen), end; !unseen && it != end;
       it.increment(unseen)) {
    std::error_code gone;
    if (fs::read_symlink(it->path(), gone) == link) return true;
  }
  return false;
}

/// Returns an empty text if the process is not visible, for example another user's.
std::string process_with(const std::string& inode) {
  const std::string link = fmt::format("socket:[{}]", inode);
  std::error_code unseen;
  for (fs::directory_iterator it("/proc", unseen), end; !unseen && it != end;
       it.increment(unseen)) {
    const std::string pid = it->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!has_socket(it->path() / "fd", link)) continue;
    return fmt::format("process {} ({})", pid, printable(first_line_of(it->path() / "comm")));
  }
  return {};
}

/// Returns the owner of the address and port on this machine, as far as /proc shows it: "process
/// 4711 (python3)", "a process of user id 1000"; empty if none is visible.
std::string owner_of_port(const Address& address) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto holder = holder_in(table, address);
    if (!holder) continue;
    const std::string process = process_with(holder->inode);
    return process.empty() ? fmt::format("a process of user id {}", holder->user) : process;
  }
  return {};
}

constexpr int kBacklog = 1024;
constexpr double kPauseS = 0.1;

/// The reason why an address cannot be listened on.
struct Obstacle {
  ErrorKind kind = ErrorKind::config;
  std::string what;
  bool may_pass = false;
  std::optional<Address> taken;  // the address whose owner to report
};

struct BindAttempt {
  std::optional<Listening> listening;
  Obstacle obstacle;
};

std::optional<Obstacle> forbidden(const Address& address, const Listener::Options& options) {
  const std::string host = endpoint_of(address).host;
  switch (reach_of(address)) {
    case Reach::this_machine:
    case Reach::private_network: return std::nullopt;
    case Reach::every_address:
      return Obstacle{.what = fmt::format("{} means all addresses of a machine\nhint: use the "
                                          "address by which other nodes reach this one",
                                          host)};
    case Reach::group:
      return Obstacle{.what = fmt::format("{} is not the address of a machine", host)};
    case Reach::public_network: break;
  }
  if (options.any_address) return std::nullopt;
  return Obstacle{.what = fmt::format(
                      "{} is a public address, and connections between nodes are not encrypted\n"
                      "hint: use a private address, or --allow-public-address if a firewall "
                      "protects the port",
                      host)};
}

Obstacle obstacle_of(int cause, const Address& address) {
  const Endpoint at = endpoint_of(address);
  if (cause == EADDRINUSE)
    return {ErrorKind::resource, fmt::format("port {} of {} is in use", at.port, at.host), true,
            address};
  if (cause == EADDRNOTAVAIL || cause == EAFNOSUPPORT)
    return {.what =
                fmt::format("{} is not an address of this machine ({})\nhint: set the endpoint to "
                            "an address of node 0, and start node 0 there",
                            at.host, std::strerror(cause))};
  return {.kind = ErrorKind::resource,
          .what = fmt::format("port {} of {}: {}", at.port, at.host, std::strerror(cause))};
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

BindAttempt attempt_at(const Address& address, const Listener::Options& options) {
  if (auto obstacle = forbidden(address, options)) return {{}, std::move(*obstacle)};
  Fd socket = tcp_socket(address);
  const int cause = socket.valid() ? bind_and_listen(socket, address) : errno;
  if (cause != 0) return {{}, obstacle_of(cause, address)};
  const Address bound = local_address(socket);
  return {Listening{std::move(socket), bound}, {}};
}

bool is_local(const Address& address) { return reach_of(address) == Reach::this_machine; }

// If the machine's name resolves to a loopback address for itself, often 127.0.1.1, other machines
// know it by the address of an interface. With several interfaces the user must choose.
Resolved of_network(const Listener::Options& options) {
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
          fmt::format("only a loopback address, and {}\nhint: set --rdzv-endpoint to the address "
                      "by which other hosts reach this one",
                      found.empty() ? "there is no network" : "there are several networks")};
}

// A loopback address that the user specifies is used.
Resolved resolved_for(const Listener::Options& options) {
  const std::string& host = options.endpoint.host;
  Resolved resolved = resolve(options.endpoint);
  const bool may_be_local = !options.other_hosts || is_numeric(host) || host == "localhost";
  if (may_be_local || resolved.addresses.empty()) return resolved;
  std::erase_if(resolved.addresses, is_local);
  return resolved.addresses.empty() ? of_network(options) : resolved;
}

// The reported obstacle is the first that may go away, or else the first one.
BindAttempt attempt(const Listener::Options& options) {
  const Resolved resolved = resolved_for(options);
  if (resolved.addresses.empty())
    return {{},
            {.what = fmt::format("cannot resolve the name {}: {}", printable(options.endpoint.host),
                                 resolved.failure),
             .may_pass = resolve(options.endpoint).addresses.empty()}};
  std::optional<Obstacle> worst;
  for (const Address& address : resolved.addresses) {
    BindAttempt one = attempt_at(address, options);
    if (one.listening) return one;
    if (!worst || (one.obstacle.may_pass && !worst->may_pass)) worst = std::move(one.obstacle);
  }
  return {{}, std::move(*worst)};
}

[[noreturn]] void fail(const Obstacle& obstacle, const Listener::Options& options) {
  std::string owner;
  if (obstacle.taken) {
    const std::string name = owner_of_port(*obstacle.taken);
    owner = fmt::format("{}{} and did not become free within {:g} s\nhint: choose another port",
                        name.empty() ? "" : " by ", name, options.port_wait_s);
  }
  throw Error(obstacle.kind,
              fmt::format("cannot listen for other nodes at {}: {}{}",
                          printable(to_text(options.endpoint)), obstacle.what, owner));
}

}  // namespace

bool is_numeric(const std::string& host) {
  return host.find(':') != std::string::npos ||
         host.find_first_not_of("0123456789.") == std::string::npos;
}

Listening listen_at(const Listener::Options& options) {
  const double end = steady_clock().now() + options.port_wait_s;
  while (true) {
    BindAttempt one = attempt(options);
    if (one.listening) return std::move(*one.listening);
    if (!one.obstacle.may_pass || steady_clock().now() >= end) fail(one.obstacle, options);
    ENSURE(interrupted, !options.give_up || !options.give_up(),
           "stopped while waiting to listen at {}", printable(to_text(options.endpoint)));
    std::this_thread::sleep_for(std::chrono::duration<double>(kPauseS));
  }
}

}  // namespace trainctl::launch
