#include "launch/process/child.hpp"
#include "support/catch.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace trainctl::launch {
namespace {

// Starts a process that starts children continuously, which appear and end while /proc is read.
pid_t start_churning() {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (true) {
    if (::vfork() == 0) ::_exit(0);
    ::waitpid(-1, nullptr, 0);
  }
}

}  // namespace

TEST_CASE("OrphanReaper: kills orphans under churn and leaves earlier children alone") {
  const pid_t churning = start_churning();
  for (int i = 0; i < 100; ++i) {
    const OrphanReaper orphans;
    const pid_t parent = ::fork();
    if (parent == 0) {
      if (::fork() == 0) {
        ::alarm(60);
        while (true) ::pause();
      }
      ::_exit(0);
    }
    REQUIRE(::waitpid(parent, nullptr, 0) == parent);
  }
  REQUIRE(::waitpid(churning, nullptr, WNOHANG) == 0);
  ::kill(churning, SIGKILL);
  REQUIRE(::waitpid(churning, nullptr, 0) == churning);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

}  // namespace trainctl::launch
