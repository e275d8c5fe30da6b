#pragma once

#include "base/files.hpp"
#include "launch/rendezvous/rendezvous.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

namespace trainctl::launch {

/// An IPv4 or IPv6 address with its port, in the kernel's format.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// The hosts that can reach a socket that listens on an address.
enum class AddressScope {
  any,  // 0.0.0.0, ::
  loopback,
  private_network,  // also link-local and shared (RFC 6598) addresses
  public_network,
  multicast,  // also broadcast
};
AddressScope scope_of(const Address& address);

struct ResolvedAddresses {
  std::vector<Address> addresses;  // loopback addresses come last
  std::string failure;             // the reason if there is no address
};
/// Resolves a numeric address or a name. Blocks until the name service answers.
ResolvedAddresses resolve(const Endpoint& endpoint);

/// Returns the address in numeric form, with the scope of a link-local address.
Endpoint endpoint_of(const Address& address);
Address local_address(const Fd& socket);
bool operator==(const Address& a, const Address& b);

/// Creates a close-on-exec, non-blocking TCP socket of the address family. The descriptor is
/// invalid on failure; see errno.
Fd tcp_socket(const Address& address);
/// Sets TCP_NODELAY and keep-alive, so that small messages are sent immediately and a peer that
/// disappears is noticed after 20 s.
void enable_keepalive(const Fd& socket);

// The functions below find the address by which ranks of other nodes reach this node.

/// Returns the address for `name_or_address`, an interface of this machine ("eth0") or one of its
/// addresses. If an interface has several, the first one of the family of `peer`, a numeric
/// address, is used. Throws Error(config) naming the existing interfaces.
std::string interface_address(const std::string& name_or_address, const std::string& peer);

/// Returns the numeric addresses of all interfaces, including loopback, without link-local IPv6
/// addresses. Throws Error(resource).
std::vector<std::string> interface_addresses();

/// Returns the interface with this address; empty if no interface has it.
std::string interface_of(const std::string& address);

// ---- The socket of the coordinator.

struct ListeningSocket {
  Fd socket;
  Address address;  // with the assigned port
};

/// Returns whether the host is an IP address, not a name.
bool is_numeric(const std::string& host);

/// Listens on the first suitable address of the endpoint, and on no other. Waits while the port is
/// in use. Throws as the constructor of Listener.
ListeningSocket listen_at(const Listener::Options& options);

/// Returns the host name, or "this machine" if the system reports none.
std::string host_name();

}  // namespace trainctl::launch
