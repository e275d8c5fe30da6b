#pragma once

#include "launch/rendezvous/address.hpp"

#include <string>

namespace trainctl::launch {

/// Who holds that address and port on this machine, as far as /proc tells: "process 4711
/// (python3)", "a process of user id 1000"; empty: nobody that can be seen.
std::string owner_of_port(const Address& address);

}  // namespace trainctl::launch
