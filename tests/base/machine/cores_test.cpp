#include "base/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <cmath>
#include <cstdlib>

using namespace trainctl;

TEST_CASE("cpu_quota: it is infinite without a cgroup or without a limit") {
  const TempFolder root;
  CHECK(std::isinf(cpu_quota(root.path())));
  put_text(root / "proc/self/cgroup", "0::/job\n");
  put_text(root / "sys/fs/cgroup/job/cpu.max", "max 100000\n");
  CHECK(std::isinf(cpu_quota(root.path())));
  put_text(root / "sys/fs/cgroup/job/cpu.max", "nonsense\n");
  CHECK(std::isinf(cpu_quota(root.path())));
}

TEST_CASE("cpu_quota: in cgroup v2, the limits of parents apply as well") {
  const TempFolder root;
  put_text(root / "proc/self/cgroup", "0::/slice/job\n");
  put_text(root / "sys/fs/cgroup/slice/job/cpu.max", "350000 100000\n");
  CHECK(cpu_quota(root.path()) == 3.5);
  put_text(root / "sys/fs/cgroup/slice/cpu.max", "200000 100000\n");
  CHECK(cpu_quota(root.path()) == 2);
}

TEST_CASE("cpu_quota: in cgroup v1, the quota is divided by the period, and -1 is no limit") {
  const TempFolder root;
  put_text(root / "proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n");
  put_text(root / "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  put_text(root / "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  CHECK(std::isinf(cpu_quota(root.path())));
  put_text(root / "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "150000\n");
  CHECK(cpu_quota(root.path()) == 1.5);
}

TEST_CASE("cpu_pressure: it is avg10 of /proc/pressure/cpu, or 0 if that is not available") {
  const TempFolder root;
  CHECK(cpu_pressure(root.path()) == 0);
  put_text(root / "proc/pressure/cpu",
           "some avg10=12.50 avg60=5.78 avg300=11.22 total=309894680\n");
  CHECK(cpu_pressure(root.path()) == 12.5);
  put_text(root / "proc/pressure/cpu", "nonsense\n");
  CHECK(cpu_pressure(root.path()) == 0);
}

TEST_CASE("allowed_cores: there are at least as many as usable cores") {
  CHECK(static_cast<int>(allowed_cores().size()) >= usable_cores());
}

TEST_CASE("cores_of_rank: the supervisor's value is used, otherwise a share of the usable cores") {
  ::unsetenv(kCoresVariable);
  CHECK(cores_of_rank(1) == usable_cores());
  CHECK(cores_of_rank(100'000) == 1);
  CHECK(cores_of_rank(0) == usable_cores());
  ::setenv(kCoresVariable, "3", 1);
  CHECK(cores_of_rank(1) == 3);
  CHECK(cores_of_rank(100'000) == 3);
  for (const char* nonsense : {"", "0", "-2", "many", "99999999999999999999"}) {
    ::setenv(kCoresVariable, nonsense, 1);
    CHECK(cores_of_rank(1) == usable_cores());
  }
  ::unsetenv(kCoresVariable);
}
