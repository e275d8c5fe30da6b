#include "launch/rendezvous/group_address.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace trainctl::launch {
namespace {

struct Interface {
  std::string name;
  std::string address;
  int family = AF_INET;
};

std::string numeric(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (address->sa_family == AF_INET) {
    std::memcpy(&v4, address, sizeof v4);
    bytes = &v4.sin_addr;
  } else {
    std::memcpy(&v6, address, sizeof v6);
    bytes = &v6.sin6_addr;
  }
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr ? ""
                                                                                     : text.data();
}

// An address that is good on one link only cannot be given to others without that link.
bool is_link_local(const sockaddr* address) {
  if (address->sa_family != AF_INET6) return false;
  sockaddr_in6 v6{};
  std::memcpy(&v6, address, sizeof v6);
  return IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr);
}

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  ENSURE(resource, ::getifaddrs(&list) == 0, "cannot list the network interfaces: {}",
         std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if ((family != AF_INET && family != AF_INET6) || is_link_local(each->ifa_addr)) continue;
    found.push_back({each->ifa_name, numeric(each->ifa_addr), family});
  }
  return found;
}

int family_of(const std::string& address) {
  in6_addr bytes{};
  if (::inet_pton(AF_INET, address.c_str(), &bytes) == 1) return AF_INET;
  return ::inet_pton(AF_INET6, address.c_str(), &bytes) == 1 ? AF_INET6 : AF_UNSPEC;
}

// 127.0.0.2 is no interface's, and yet this machine's.
bool is_ours(const std::string& address, int family) {
  const Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return false;
  sockaddr_storage place{};
  place.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    ::inet_pton(AF_INET, address.c_str(), &v4.sin_addr);
    std::memcpy(&place, &v4, sizeof v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    ::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr);
    std::memcpy(&place, &v6, sizeof v6);
  }
  const auto* pointer = static_cast<const sockaddr*>(static_cast<const void*>(&place));
  return ::bind(socket.get(), pointer,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)) == 0;
}

std::string list_of(const std::vector<Interface>& all) {
  std::vector<std::string> texts;
  for (const Interface& each : all) texts.push_back(each.name + " (" + each.address + ")");
  return texts.empty() ? "none" : shortened(texts, 12);
}

}  // namespace

std::string interface_address(const std::string& wish, const std::string& like) {
  const std::vector<Interface> all = interfaces();
  const int family = family_of(wish);
  if (family != AF_UNSPEC) {
    ENSURE(config, is_ours(wish, family),
           "distributed.interface: {} is no address of this machine, which has {}", printable(wish),
           list_of(all));
    return wish;
  }
  const int wanted = family_of(like);
  const auto of_that_name = [&](const Interface& each) { return each.name == wish; };
  auto found = std::ranges::find_if(
      all, [&](const Interface& each) { return of_that_name(each) && each.family == wanted; });
  if (found == all.end()) found = std::ranges::find_if(all, of_that_name);
  ENSURE(config, found != all.end(),
         "distributed.interface: this machine has no network interface '{}' with an address; there "
         "are {}",
         printable(wish), list_of(all));
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

}  // namespace trainctl::launch
