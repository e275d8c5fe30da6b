#include "launch/rendezvous/host.hpp"

#include <unistd.h>

#include <array>

namespace trainctl::launch {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this machine";
}

}  // namespace trainctl::launch
