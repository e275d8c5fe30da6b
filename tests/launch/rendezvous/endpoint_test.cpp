#include "launch/rendezvous/address.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "launch/rendezvous_peers.hpp"
#include "support/catch.hpp"

#include <utility>

namespace trainctl::launch {
namespace {

AddressScope reach(const std::string& host) {
  const ResolvedAddresses found = resolve({host, 1});
  INFO(host << ": " << found.failure);
  REQUIRE(found.addresses.size() == 1);
  return scope_of(found.addresses[0]);
}

}  // namespace

TEST_CASE("parse_endpoint: accepts a name or an address, and a port") {
  const std::vector<std::pair<std::string, Endpoint>> good{
      {"10.0.0.1:29500", {"10.0.0.1", 29500}},
      {"[::1]:29500", {"::1", 29500}},
      {"[fe80::1%eth0]:1", {"fe80::1%eth0", 1}},
      {"node-1.cluster_2.local:65535", {"node-1.cluster_2.local", 65535}},
      {"node1", {"node1", kRendezvousPort}},
      {"[fd00::2]", {"fd00::2", kRendezvousPort}},
  };
  for (const auto& [text, expected] : good) {
    const Endpoint endpoint = parse_endpoint(text);
    CHECK(endpoint.host == expected.host);
    CHECK(endpoint.port == expected.port);
    const Endpoint again = parse_endpoint(to_text(endpoint));
    CHECK(again.host == expected.host);
    CHECK(again.port == expected.port);
  }
}

TEST_CASE("parse_endpoint: the error for an invalid endpoint has the reason") {
  const std::vector<std::pair<std::string, std::string>> bad{
      {"", "host is missing"},
      {":29500", "host is missing"},
      {"node1:", "got ''"},
      {"node1:0", "got '0'"},
      {"node1:65536", "got '65536'"},
      {"node1:-1", "got '-1'"},
      {"node1:80 ", "got '80 '"},
      {"node1:29500/run", "got '29500/run'"},
      {"::1", "in brackets"},
      {"fd00::1:29500", "in brackets"},
      {"[::1", "not closed"},
      {"[::1]29500", "not followed by ':'"},
      {"[node1]:29500", "not an IPv6 address"},
      {"[]:29500", "not an IPv6 address"},
      {"http//node1:80", "invalid characters"},
      {"no de:80", "invalid characters"},
      {"node\x1b[31m:80", "\\x1b"},
      {std::string(300, 'a') + ":80", "too long"},
  };
  for (const auto& [text, reason] : bad) {
    INFO(text);
    const Error error = thrown_by([&, &text = text] { parse_endpoint(text); });
    CHECK(error.kind() == ErrorKind::config);
    CHECK_THAT(error.what(), Contains(reason));
  }
}

TEST_CASE("scope_of: classifies addresses") {
  for (const char* host : {"0.0.0.0", "::", "::ffff:0.0.0.0"})
    CHECK(reach(host) == AddressScope::any);
  for (const char* host : {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"})
    CHECK(reach(host) == AddressScope::loopback);
  for (const char* host : {"10.255.0.1", "172.16.0.1", "172.31.255.1", "192.168.7.7", "169.254.1.1",
                           "100.64.0.1", "100.127.0.1", "fe80::1", "fd12:3456::1", "fc00::1"})
    CHECK(reach(host) == AddressScope::private_network);
  for (const char* host : {"8.8.8.8", "172.15.0.1", "172.32.0.1", "192.169.0.1", "11.0.0.1",
                           "100.63.0.1", "100.128.0.1", "2001:db8::1", "::ffff:8.8.8.8", "fb00::1"})
    CHECK(reach(host) == AddressScope::public_network);
  for (const char* host : {"224.0.0.1", "239.1.1.1", "255.255.255.255", "ff02::1"})
    CHECK(reach(host) == AddressScope::multicast);
}

TEST_CASE("resolve: an IPv4-mapped IPv6 address becomes an IPv4 address") {
  const ResolvedAddresses found = resolve({"::ffff:127.0.0.1", 4711});
  REQUIRE(found.addresses.size() == 1);
  CHECK(to_text(endpoint_of(found.addresses[0])) == "127.0.0.1:4711");
}

}  // namespace trainctl::launch
