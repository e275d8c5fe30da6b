#pragma once

#include <string>
#include <vector>

// The address by which the ranks of this node are reached from others.

namespace trainctl::launch {

/// The address of `wish`, an interface of this machine ("eth0") or one of its addresses. Of several
/// addresses of an interface the first of the family of `like`, a numeric address. Throws
/// Error(config) naming the interfaces there are.
std::string interface_address(const std::string& wish, const std::string& like);

/// The numeric addresses of all interfaces, loopback and all; link-local ones of IPv6 aside.
/// Error(resource).
std::vector<std::string> interface_addresses();

/// The interface that has this address; empty where none says so.
std::string interface_of(const std::string& address);

}  // namespace trainctl::launch
