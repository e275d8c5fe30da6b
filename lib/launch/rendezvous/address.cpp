#include "launch/rendezvous/address.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <iterator>

namespace trainctl::launch {
namespace {

const sockaddr_in& v4(const Address& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& v6(const Address& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}
bool is_v4(const Address& address) { return address.storage.ss_family == AF_INET; }

AddressScope scope_of_v4(std::uint32_t bits) {
  const auto within = [bits](std::uint32_t network, int prefix) {
    return (bits ^ network) >> (32 - prefix) == 0;
  };
  if (bits == 0) return AddressScope::any;
  if (within(0x7F000000, 8)) return AddressScope::loopback;
  if (within(0xE0000000, 4) || bits == 0xFFFFFFFF) return AddressScope::multicast;
  const bool is_private = within(0x0A000000, 8) || within(0xAC100000, 12) ||
                          within(0xC0A80000, 16) || within(0xA9FE0000, 16) ||
                          within(0x64400000, 10);
  return is_private ? AddressScope::private_network : AddressScope::public_network;
}

bool starts_with(const in6_addr& bits, std::initializer_list<unsigned> front) {
  return std::equal(front.begin(), front.end(), std::begin(bits.s6_addr));
}

AddressScope scope_of_v6(const in6_addr& bits) {
  constexpr in6_addr kAny{};
  if (std::memcmp(&bits, &kAny, sizeof bits) == 0) return AddressScope::any;
  if (std::memcmp(&bits, &in6addr_loopback, sizeof bits) == 0) return AddressScope::loopback;
  if (starts_with(bits, {0xFF})) return AddressScope::multicast;
  const bool is_link_local = bits.s6_addr[0] == 0xFE && (bits.s6_addr[1] & 0xC0U) == 0x80;
  const bool is_unique_local = (bits.s6_addr[0] & 0xFEU) == 0xFC;
  return is_link_local || is_unique_local ? AddressScope::private_network
                                          : AddressScope::public_network;
}

/// Copies an IPv4 or IPv6 address.
Address copy_of(const sockaddr* info) {
  Address address;
  address.size = info->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&address.storage, info, address.size);
  return address;
}

Address address_of(const addrinfo& info) {
  const Address address = copy_of(info.ai_addr);
  const bool is_mapped =
      info.ai_family == AF_INET6 &&
      starts_with(v6(address).sin6_addr, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF});
  if (!is_mapped) return address;
  // ::ffff:10.0.0.1 is an IPv4-mapped address.
  sockaddr_in plain{};
  plain.sin_family = AF_INET;
  plain.sin_port = v6(address).sin6_port;
  std::memcpy(&plain.sin_addr, v6(address).sin6_addr.s6_addr + 12, sizeof plain.sin_addr);
  return copy_of(reinterpret_cast<const sockaddr*>(&plain));
}

void set_option(const Fd& socket, int level, int name, int value) {
  ::setsockopt(socket.get(), level, name, &value, sizeof value);
}

struct Interface {
  std::string name;
  std::string address;
  int family = AF_INET;
};

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  ENSURE(resource, ::getifaddrs(&list) == 0, "cannot list the network interfaces: {}",
         std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const Address address = copy_of(each->ifa_addr);
    // A link-local address is valid on one link only, so other nodes cannot use it.
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6(address).sin6_addr)) continue;
    found.push_back({each->ifa_name, endpoint_of(address).host, family});
  }
  return found;
}

int family_of(const std::string& address) {
  in6_addr bytes{};
  if (::inet_pton(AF_INET, address.c_str(), &bytes) == 1) return AF_INET;
  return ::inet_pton(AF_INET6, address.c_str(), &bytes) == 1 ? AF_INET6 : AF_UNSPEC;
}

// 127.0.0.2 belongs to no interface but to this machine, so bind() decides.
bool is_local_address(const std::string& address, int family) {
  Address local;
  local.storage.ss_family = static_cast<sa_family_t>(family);
  local.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  void* bytes = family == AF_INET
                    ? static_cast<void*>(&reinterpret_cast<sockaddr_in&>(local.storage).sin_addr)
                    : &reinterpret_cast<sockaddr_in6&>(local.storage).sin6_addr;
  ::inet_pton(family, address.c_str(), bytes);
  const Fd socket = tcp_socket(local);
  return socket.valid() && ::bind(socket.get(), local.get(), local.size) == 0;
}

std::string list_of(const std::vector<Interface>& all) {
  std::vector<std::string> texts;
  for (const Interface& each : all) texts.push_back(each.name + " (" + each.address + ")");
  return texts.empty() ? "none" : shortened(texts, 12);
}

}  // namespace

AddressScope scope_of(const Address& address) {
  if (is_v4(address)) return scope_of_v4(ntohl(v4(address).sin_addr.s_addr));
  return scope_of_v6(v6(address).sin6_addr);
}

ResolvedAddresses resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int failure =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &first);
  if (failure != 0)
    return {{}, failure == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(failure)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(first, ::freeaddrinfo);
  ResolvedAddresses found;
  for (const addrinfo* info = first; info != nullptr; info = info->ai_next) {
    if (info->ai_family == AF_INET || info->ai_family == AF_INET6)
      found.addresses.push_back(address_of(*info));
  }
  if (found.addresses.empty()) found.failure = "it has no IPv4 or IPv6 address";
  std::ranges::stable_partition(found.addresses, [](const Address& address) {
    return scope_of(address) != AddressScope::loopback;
  });
  return found;
}

Endpoint endpoint_of(const Address& address) {
  std::array<char, NI_MAXHOST> host{};
  const int failure = ::getnameinfo(address.get(), address.size, host.data(), host.size(), nullptr,
                                    0, NI_NUMERICHOST);
  ENSURE(resource, failure == 0, "cannot format a network address: {}", ::gai_strerror(failure));
  return {host.data(), ntohs(is_v4(address) ? v4(address).sin_port : v6(address).sin6_port)};
}

Address local_address(const Fd& socket) {
  Address address;
  ENSURE(resource, ::getsockname(socket.get(), address.get(), &address.size) == 0,
         "cannot read the local address of a connection: {}", std::strerror(errno));
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

// The options are not essential, so failures are ignored.
void enable_keepalive(const Fd& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

std::string interface_address(const std::string& name_or_address, const std::string& peer) {
  const std::vector<Interface> all = interfaces();
  const int family = family_of(name_or_address);
  if (family != AF_UNSPEC) {
    ENSURE(config, is_local_address(name_or_address, family),
           "distributed.interface: {} is not an address of this machine; its interfaces are {}",
           printable(name_or_address), list_of(all));
    return name_or_address;
  }
  const int wanted = family_of(peer);
  const auto has_name = [&](const Interface& each) { return each.name == name_or_address; };
  auto found = std::ranges::find_if(
      all, [&](const Interface& each) { return has_name(each) && each.family == wanted; });
  if (found == all.end()) found = std::ranges::find_if(all, has_name);
  ENSURE(config, found != all.end(),
         "distributed.interface: this machine has no network interface '{}' with an address; its "
         "interfaces are {}",
         printable(name_or_address), list_of(all));
  return found->address;
}

std::vector<std::string> interface_addresses() {
  std::vector<std::string> texts;
  for (const Interface& each : interfaces()) texts.push_back(each.address);
  return texts;
}

std::string interface_of(const std::string& address) {
  const std::vector<Interface> all = interfaces();
  const auto found = std::ranges::find(all, address, &Interface::address);
  return found == all.end() ? "" : found->name;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this machine";
}

}  // namespace trainctl::launch
