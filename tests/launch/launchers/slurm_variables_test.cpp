#include "base/error.hpp"
#include "launch/launchers/launcher_environment.hpp"
#include "support/catch.hpp"

#include <array>
#include <set>
#include <utility>

using namespace trainctl;
using namespace trainctl::launch;

TEST_CASE("first_host: reads short and long forms of a node list") {
  constexpr std::array kLists{
      std::pair{"node1", "node1"},
      std::pair{"node1,node2", "node1"},
      std::pair{"node[01-03,7]", "node01"},
      std::pair{"node[7,9-12]", "node7"},
      std::pair{"gpu[03-05,9],login1", "gpu03"},
      std::pair{"login1,gpu[03-05]", "login1"},
      std::pair{"rack[1-2]node[03-04]", "rack1node03"},
      std::pair{"gpu[1-2]-ib", "gpu1-ib"},
      std::pair{"a-1.cluster.example[5]", "a-1.cluster.example5"},
  };
  for (const auto& [list, host] : kLists) CHECK(first_host(list) == host);
}

TEST_CASE("first_host: an invalid node list is an error") {
  for (const char* list : {"", ",node2", "node[", "node[]", "node[a-b]", "node[-3]", "node 1",
                           "$(reboot)", "node]1", "node\n1"}) {
    CAPTURE(list);
    CHECK_THROWS_AS(first_host(list), Error);
  }
}

TEST_CASE("tasks_of_node: reads repetitions") {
  for (int node = 0; node < 3; ++node) CHECK(tasks_of_node("2(x3),1", node) == 2);
  CHECK(tasks_of_node("2(x3),1", 3) == 1);
  CHECK(tasks_of_node("4", 0) == 4);
  CHECK(tasks_of_node("1,8(x2),16", 2) == 8);
  CHECK(tasks_of_node("1,8(x2),16", 3) == 16);
}

TEST_CASE("tasks_of_node: invalid counts and missing nodes are errors") {
  for (const char* counts : {"", "2(x3", "2(y3)", "0", "-1", "2(x0)", "two", "2 ", "2,,2"}) {
    CAPTURE(counts);
    CHECK_THROWS_AS(tasks_of_node(counts, 1), Error);
  }
  CHECK_THROWS_AS(tasks_of_node("2(x3),1", 4), Error);
}

TEST_CASE("port_of_job: ports are below the ephemeral range and differ between neighboring jobs") {
  std::set<std::uint16_t> ports;
  for (std::uint64_t job = 4'000'000; job < 4'000'100; ++job) {
    for (std::uint64_t step = 0; step < 4; ++step) ports.insert(port_of_job(job, step));
  }
  CHECK(ports.size() == 400);
  CHECK(*ports.begin() >= 12000);
  CHECK(*ports.rbegin() < 28000);
  CHECK(port_of_job(~std::uint64_t{0}, ~std::uint64_t{0}) >= 12000);
}
