#include "launch/supervise/failure_evidence.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <filesystem>
#include <fstream>
#include <string>

namespace trainctl::launch {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("oom_kills: counts those of the cgroup, or else of the machine") {
  const TempFolder root;
  CHECK_FALSE(oom_kills(root.path()));
  write(root / "proc/vmstat", "nr_free_pages 5\noom_kill 3\n");
  CHECK(oom_kills(root.path()) == 3U);
  write(root / "proc/self/cgroup", "0::/job/1\n");
  CHECK(oom_kills(root.path()) == 3U);
  write(root / "sys/fs/cgroup/job/1/memory.events", "low 0\noom 1\noom_kill 8\n");
  CHECK(oom_kills(root.path()) == 8U);
  write(root / "proc/self/cgroup", "9:cpu:/\n4:memory:/old\n0::/\n");
  write(root / "sys/fs/cgroup/memory/old/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  CHECK(oom_kills(root.path()) == 2U);
}

TEST_CASE("oom_kills: uses the visible group in a container with the path of the host") {
  const TempFolder root;
  write(root / "proc/vmstat", "oom_kill 99\n");
  write(root / "proc/self/cgroup", "0::/of/the/host\n");
  write(root / "sys/fs/cgroup/memory.events", "oom_kill 4\n");
  CHECK(oom_kills(root.path()) == 4U);
}

TEST_CASE(
    "OomKillTracker: each increment of the counter explains one kill, with that rank's peak") {
  const TempFolder root;
  write(root / "proc/vmstat", "oom_kill 3\n");
  OomKillTracker watch(root.path());
  CHECK_THAT(watch.explain_kill(3 << 20), Contains("possibly out of memory: peak memory 3"));
  write(root / "proc/vmstat", "oom_kill 5\n");
  for (int i = 0; i < 2; ++i)
    CHECK_THAT(watch.explain_kill(7 << 20),
               Contains("(out of memory: the kernel's oom_kill counter increased; peak memory 7"));
  CHECK_THAT(watch.explain_kill(1), Contains("possibly"));
}

}  // namespace trainctl::launch
