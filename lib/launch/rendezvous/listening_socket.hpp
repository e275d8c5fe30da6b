#pragma once

#include "launch/rendezvous/address.hpp"

#include <string>

namespace trainctl::launch {

struct Listening {
  Fd socket;
  Address address;  // with the real port
};

/// It is written as a number, not as a name.
bool is_numeric(const std::string& host);

/// A listening socket on the first address of the endpoint that will do, and on no other; waits for
/// a port that is taken. Errors as Listener's.
Listening listen_at(const Listener::Options& options);

}  // namespace trainctl::launch
