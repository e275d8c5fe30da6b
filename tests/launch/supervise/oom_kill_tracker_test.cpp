#include "launch/supervise/verdict.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <filesystem>
#include <string>

namespace trainctl::launch {

TEST_CASE("oom_kills: counts the OOM kills of the cgroup, or else of the machine") {
  const TempFolder root;
  CHECK_FALSE(oom_kills(root.path()));
  put_text(root / "proc/vmstat", "nr_free_pages 5\noom_kill 3\n");
  CHECK(oom_kills(root.path()) == 3U);
  put_text(root / "proc/self/cgroup", "0::/job/1\n");
  CHECK(oom_kills(root.path()) == 3U);
  put_text(root / "sys/fs/cgroup/job/1/memory.events", "low 0\noom 1\noom_kill 8\n");
  CHECK(oom_kills(root.path()) == 8U);
  put_text(root / "proc/self/cgroup", "9:cpu:/\n4:memory:/old\n0::/\n");
  put_text(root / "sys/fs/cgroup/memory/old/memory.oom_control",
           "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  CHECK(oom_kills(root.path()) == 2U);
}

TEST_CASE("oom_kills: uses the visible group in a container with the path of the host") {
  const TempFolder root;
  put_text(root / "proc/vmstat", "oom_kill 99\n");
  put_text(root / "proc/self/cgroup", "0::/of/the/host\n");
  put_text(root / "sys/fs/cgroup/memory.events", "oom_kill 4\n");
  CHECK(oom_kills(root.path()) == 4U);
}

TEST_CASE(
    "OomKillTracker: each increment of the counter explains one kill, with that rank's "
    "peak memory") {
  const TempFolder root;
  put_text(root / "proc/vmstat", "oom_kill 3\n");
  OomKillTracker watch(root.path());
  CHECK_THAT(watch.explain_kill(3 << 20), Contains("possibly out of memory: peak memory 3"));
  put_text(root / "proc/vmstat", "oom_kill 5\n");
  for (int i = 0; i < 2; ++i)
    CHECK_THAT(watch.explain_kill(7 << 20),
               Contains("(out of memory: the kernel's oom_kill counter increased; peak memory 7"));
  CHECK_THAT(watch.explain_kill(1), Contains("possibly"));
}

}  // namespace trainctl::launch
