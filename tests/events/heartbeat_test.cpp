#include "events/heartbeat.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>
#include <unistd.h>

namespace trainctl::events {

TEST_CASE("a stamp of a process that was killed can still be read") {
  const HeartbeatPage page = HeartbeatPage::create();
  const pid_t child = ::fork();
  if (child == 0) {
    page.get().stamp(Phase::validate, 41);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(page.get().global_step == 41);
  CHECK(page.get().phase == static_cast<int>(Phase::validate));
  CHECK(page.get().monotonic_ns > 0);
}

TEST_CASE("a worker attaches to the page it inherits and cannot shrink it") {
  const HeartbeatPage page = HeartbeatPage::create();
  {
    const HeartbeatPage attached = HeartbeatPage::attach(page.fd());
    attached.get().stamp(Phase::train, 7);
  }
  CHECK(page.get().global_step == 7);
  CHECK(::ftruncate(page.fd(), 0) != 0);
}

TEST_CASE("a descriptor that is no heartbeat page is refused") {
  CHECK_THROWS_AS(HeartbeatPage::attach(-1), Error);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const Fd read_end(ends[0]);
  const Fd write_end(ends[1]);
  CHECK_THROWS_AS(HeartbeatPage::attach(read_end.get()), Error);
}

}  // namespace trainctl::events
