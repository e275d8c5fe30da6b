#include "launch/rendezvous/random.hpp"

#include "base/error.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace trainctl::launch {

void fill_with_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::getrandom(bytes.data(), bytes.size(), 0);
    ENSURE(resource, count >= 0 || errno == EINTR, "the kernel gives no random numbers: {}",
           std::strerror(errno));
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace trainctl::launch
