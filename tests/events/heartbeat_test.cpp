#include "events/heartbeat.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>
#include <unistd.h>

namespace trainctl::events {

TEST_CASE("Heartbeat: the last stamp of a killed process can be read") {
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

TEST_CASE("Heartbeat: without listeners all events count as recorded") {
  Heartbeat page{};
  page.num_written = 2;
  CHECK(page.has_recorded(2));
  page.num_recorded = 1;
  CHECK_FALSE(page.has_recorded(2));
  page.num_recorded = 2;
  CHECK(page.has_recorded(2));
}

TEST_CASE("Heartbeat: the last collective of a killed process can be read") {
  const HeartbeatPage page = HeartbeatPage::create();
  CHECK(page.get().collective().name.empty());
  CHECK_FALSE(page.get().collective().in_progress);
  const pid_t child = ::fork();
  if (child == 0) {
    { const CollectiveScope done(&page.get(), "broadcast of buffer 'norm.running_mean'"); }
    const CollectiveScope waits(&page.get(), "sum of the losses");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(page.get().collective().name == "sum of the losses");
  CHECK(page.get().collective().in_progress);
}

TEST_CASE("Heartbeat: a finished collective keeps its name, and a long name is truncated") {
  const HeartbeatPage page = HeartbeatPage::create();
  { const CollectiveScope stamp(&page.get(), std::string(60, 'a') + std::string(60, 'b')); }
  CHECK(page.get().collective().name == std::string(60, 'a') + "bbbb");
  CHECK_FALSE(page.get().collective().in_progress);
  { const CollectiveScope nobody(nullptr, "not seen"); }
  { const CollectiveScope stamp(&page.get(), "one\x1b[2J"); }
  CHECK(page.get().collective().name.find('\x1b') == std::string::npos);
}

TEST_CASE("HeartbeatPage: a worker attaches to the inherited page and cannot shrink it") {
  const HeartbeatPage page = HeartbeatPage::create();
  {
    const HeartbeatPage attached = HeartbeatPage::attach(page.fd());
    attached.get().stamp(Phase::train, 7);
  }
  CHECK(page.get().global_step == 7);
  CHECK(::ftruncate(page.fd(), 0) != 0);
}

TEST_CASE("Heartbeat: other descriptors are rejected") {
  CHECK_THROWS_AS(HeartbeatPage::attach(-1), Error);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const Fd read_end(ends[0]);
  const Fd write_end(ends[1]);
  CHECK_THROWS_AS(HeartbeatPage::attach(read_end.get()), Error);
}

}  // namespace trainctl::events
