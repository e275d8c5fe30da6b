#include "launch/rendezvous/address.hpp"

#include "base/error.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>

namespace trainctl::launch {
namespace {

const sockaddr_in& v4(const Address& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& v6(const Address& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}
bool is_v4(const Address& address) { return address.storage.ss_family == AF_INET; }

Reach reach_of_v4(std::uint32_t bits) {
  const auto within = [bits](std::uint32_t network, int prefix) {
    return (bits ^ network) >> (32 - prefix) == 0;
  };
  if (bits == 0) return Reach::every_address;
  if (within(0x7F000000, 8)) return Reach::this_machine;
  if (within(0xE0000000, 4) || bits == 0xFFFFFFFF) return Reach::group;
  const bool is_private = within(0x0A000000, 8) || within(0xAC100000, 12) ||
                          within(0xC0A80000, 16) || within(0xA9FE0000, 16) ||
                          within(0x64400000, 10);
  return is_private ? Reach::private_network : Reach::public_network;
}

bool starts_with(const in6_addr& bits, std::initializer_list<unsigned> front) {
  return std::equal(front.begin(), front.end(), std::begin(bits.s6_addr));
}

Reach reach_of_v6(const in6_addr& bits) {
  constexpr in6_addr kEvery{};
  if (std::memcmp(&bits, &kEvery, sizeof bits) == 0) return Reach::every_address;
  if (std::memcmp(&bits, &in6addr_loopback, sizeof bits) == 0) return Reach::this_machine;
  if (starts_with(bits, {0xFF})) return Reach::group;
  const bool is_link_local = bits.s6_addr[0] == 0xFE && (bits.s6_addr[1] & 0xC0U) == 0x80;
  const bool is_unique_local = (bits.s6_addr[0] & 0xFEU) == 0xFC;
  return is_link_local || is_unique_local ? Reach::private_network : Reach::public_network;
}

Address address_of(const addrinfo& info) {
  Address address;
  std::memcpy(&address.storage, info.ai_addr, info.ai_addrlen);
  address.size = info.ai_addrlen;
  const bool is_mapped =
      info.ai_family == AF_INET6 &&
      starts_with(v6(address).sin6_addr, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF});
  if (!is_mapped) return address;
  // ::ffff:10.0.0.1 is an address of IPv4 in another dress.
  sockaddr_in plain{};
  plain.sin_family = AF_INET;
  plain.sin_port = v6(address).sin6_port;
  std::memcpy(&plain.sin_addr, v6(address).sin6_addr.s6_addr + 12, sizeof plain.sin_addr);
  Address unmapped;
  std::memcpy(&unmapped.storage, &plain, sizeof plain);
  unmapped.size = sizeof plain;
  return unmapped;
}

struct Release {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

void set_option(const Fd& socket, int level, int name, int value) {
  ::setsockopt(socket.get(), level, name, &value, sizeof value);
}

}  // namespace

Reach reach_of(const Address& address) {
  if (is_v4(address)) return reach_of_v4(ntohl(v4(address).sin_addr.s_addr));
  return reach_of_v6(v6(address).sin6_addr);
}

Resolved resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int failure =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &first);
  if (failure != 0)
    return {{}, failure == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(failure)};
  const std::unique_ptr<addrinfo, Release> list(first);
  Resolved found;
  for (const addrinfo* info = first; info != nullptr; info = info->ai_next) {
    if (info->ai_family == AF_INET || info->ai_family == AF_INET6)
      found.addresses.push_back(address_of(*info));
  }
  if (found.addresses.empty()) found.failure = "it has no address of IPv4 or IPv6";
  std::ranges::stable_partition(found.addresses, [](const Address& address) {
    return reach_of(address) != Reach::this_machine;
  });
  return found;
}

Endpoint endpoint_of(const Address& address) {
  std::array<char, NI_MAXHOST> host{};
  const int failure = ::getnameinfo(address.get(), address.size, host.data(), host.size(), nullptr,
                                    0, NI_NUMERICHOST);
  ENSURE(resource, failure == 0, "an address cannot be written down: {}", ::gai_strerror(failure));
  return {host.data(), ntohs(is_v4(address) ? v4(address).sin_port : v6(address).sin6_port)};
}

Address local_address(const Fd& socket) {
  Address address;
  ENSURE(resource, ::getsockname(socket.get(), address.get(), &address.size) == 0,
         "a connection has no address: {}", std::strerror(errno));
  return address;
}

bool operator==(const Address& a, const Address& b) {
  if (a.storage.ss_family != b.storage.ss_family) return false;
  if (is_v4(a))
    return v4(a).sin_port == v4(b).sin_port && v4(a).sin_addr.s_addr == v4(b).sin_addr.s_addr;
  return v6(a).sin6_port == v6(b).sin6_port &&
         std::memcmp(&v6(a).sin6_addr, &v6(b).sin6_addr, sizeof(in6_addr)) == 0;
}

Fd tcp_socket(const Address& address) {
  return Fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Where the system lacks one of them, the connection works without.
void make_lively(const Fd& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace trainctl::launch
