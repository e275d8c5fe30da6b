#include "base/error.hpp"
#include "launch/rendezvous/address.hpp"
#include "support/catch.hpp"

#include <string>

namespace trainctl::launch {
namespace {

std::string error_of(const std::string& name_or_address) {
  try {
    return "accepted as " + interface_address(name_or_address, "10.0.0.1");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
}

}  // namespace

TEST_CASE("interface_address: returns the address of an interface, and local addresses unchanged") {
  CHECK(interface_address("lo", "127.0.0.5") == "127.0.0.1");
  CHECK(interface_address("127.0.0.1", "10.0.0.1") == "127.0.0.1");
  CHECK(interface_address("127.0.0.2", "10.0.0.1") == "127.0.0.2");  // no interface has it
  CHECK(interface_of("127.0.0.1") == "lo");
  CHECK(interface_of("192.0.2.1").empty());
}

TEST_CASE("interface_address: the error lists the existing interfaces") {
  CHECK_THAT(error_of("nothing0"), Contains("distributed.interface") && Contains("'nothing0'") &&
                                       Contains("lo (127.0.0.1"));
  CHECK_THAT(error_of("192.0.2.1"), Contains("192.0.2.1 is not an address of this machine"));
  CHECK_THAT(error_of("\x1b[1m"), Contains("\\x1b"));
}

}  // namespace trainctl::launch
