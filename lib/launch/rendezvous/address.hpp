#pragma once

#include "base/files.hpp"
#include "launch/rendezvous/rendezvous.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

namespace trainctl::launch {

/// An address of IPv4 or IPv6 with its port, as the kernel takes it.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Who can reach what listens there.
enum class Reach {
  every_address,  // 0.0.0.0, ::
  this_machine,
  private_network,  // link-local and shared (RFC 6598) addresses, too
  public_network,
  group,  // multicast and broadcast
};
Reach reach_of(const Address& address);

struct Resolved {
  std::vector<Address> addresses;  // those of this machine alone come last
  std::string failure;             // why there is none
};
/// Numeric addresses and names; waits for the name service.
Resolved resolve(const Endpoint& endpoint);

/// Numeric, with the scope of a link-local one.
Endpoint endpoint_of(const Address& address);
Address local_address(const Fd& socket);
bool operator==(const Address& a, const Address& b);

/// A socket of that family: close-on-exec and non-blocking. Invalid where there is none; see errno.
Fd tcp_socket(const Address& address);
/// Small messages leave at once, and a peer that is gone without a word is noticed after 20 s.
void make_lively(const Fd& socket);

// The address by which the ranks of this node are reached from others.

/// The address of `wish`, an interface of this machine ("eth0") or one of its addresses. Of several
/// addresses of an interface the first of the family of `like`, a numeric address. Throws
/// Error(config) naming the interfaces there are.
std::string interface_address(const std::string& wish, const std::string& like);

/// The numeric addresses of all interfaces, loopback and all; link-local ones of IPv6 aside.
/// Error(resource).
std::vector<std::string> interface_addresses();

/// The interface that has this address; empty where none says so.
std::string interface_of(const std::string& address);

// The socket of the head.

struct Listening {
  Fd socket;
  Address address;  // with the real port
};

/// It is written as a number, not as a name.
bool is_numeric(const std::string& host);

/// A listening socket on the first address of the endpoint that will do, and on no other; waits for
/// a port that is taken. Errors as Listener's.
Listening listen_at(const Listener::Options& options);

/// What this machine calls itself; "this machine" where it does not tell.
std::string host_name();

}  // namespace trainctl::launch
