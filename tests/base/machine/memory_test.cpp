#include "base/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;

TEST_CASE("available_memory: it is MemAvailable without a cgroup limit") {
  const TempFolder root;
  put_text(root / "proc/meminfo",
           "MemTotal:       2000 kB\nMemFree:  500 kB\nMemAvailable:    1000 kB\n");
  CHECK(available_memory(root.path()) == 1000 * 1024);
  put_text(root / "proc/self/cgroup", "0::/job\n");
  put_text(root / "sys/fs/cgroup/job/memory.max", "max\n");
  CHECK(available_memory(root.path()) == 1000 * 1024);
}

TEST_CASE(
    "available_memory: in cgroup v2, limits apply without page cache, also those of parents") {
  const TempFolder root;
  put_text(root / "proc/meminfo", "MemAvailable: 1000000 kB\n");
  put_text(root / "proc/self/cgroup", "0::/slice/job\n");
  put_text(root / "sys/fs/cgroup/slice/job/memory.max", "10000\n");
  put_text(root / "sys/fs/cgroup/slice/job/memory.current", "9000\n");
  put_text(root / "sys/fs/cgroup/slice/job/memory.stat",
           "anon 2000\nfile 7000\ninactive_file 6000\n");
  CHECK(available_memory(root.path()) == 7000);
  put_text(root / "sys/fs/cgroup/slice/memory.max", "5000\n");
  put_text(root / "sys/fs/cgroup/slice/memory.current", "4000\n");
  CHECK(available_memory(root.path()) == 1000);
}

TEST_CASE("available_memory: in cgroup v1, the limit applies unless it is the value for none") {
  const TempFolder root;
  put_text(root / "proc/meminfo", "MemAvailable: 1000000 kB\n");
  put_text(root / "proc/self/cgroup", "5:cpu:/x\n4:memory:/job\n");
  put_text(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put_text(root / "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "8000\n");
  put_text(root / "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "9000\n");
  CHECK(available_memory(root.path()) == 0);
}
