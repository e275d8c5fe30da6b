#include "base/machine/machine.hpp"

#include "support/catch.hpp"

#include <sched.h>

using namespace trainctl;

TEST_CASE("read_machine: the values are plausible") {
  const Machine machine = read_machine();
  CHECK_FALSE(machine.host.empty());
  CHECK_FALSE(machine.kernel.empty());
  CHECK(machine.cores >= 1);
  CHECK(machine.memory_available_bytes > 0);
  CHECK(machine.memory_available_bytes <= machine.memory_bytes);
}

TEST_CASE("usable_cores: only cores in the affinity mask count") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(usable_cores() == 1);
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
}
