#include "base/machine.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <cmath>
#include <fstream>

using namespace trainctl;

namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("no control group, and one without a limit, leave every core") {
  const TempFolder root;
  CHECK(std::isinf(cpu_quota(root.path())));
  write(root / "proc/self/cgroup", "0::/job\n");
  write(root / "sys/fs/cgroup/job/cpu.max", "max 100000\n");
  CHECK(std::isinf(cpu_quota(root.path())));
  write(root / "sys/fs/cgroup/job/cpu.max", "nonsense\n");
  CHECK(std::isinf(cpu_quota(root.path())));
}

TEST_CASE("a control group v2 limits the cores, and so do its parents") {
  const TempFolder root;
  write(root / "proc/self/cgroup", "0::/slice/job\n");
  write(root / "sys/fs/cgroup/slice/job/cpu.max", "350000 100000\n");
  CHECK(cpu_quota(root.path()) == 3.5);
  write(root / "sys/fs/cgroup/slice/cpu.max", "200000 100000\n");
  CHECK(cpu_quota(root.path()) == 2);
}

TEST_CASE("a control group v1 limits the cores, and its value for no limit does not") {
  const TempFolder root;
  write(root / "proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n");
  write(root / "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  write(root / "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  CHECK(std::isinf(cpu_quota(root.path())));
  write(root / "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "150000\n");
  CHECK(cpu_quota(root.path()) == 1.5);
}

TEST_CASE("the allowed cores are those that are counted") {
  CHECK(static_cast<int>(allowed_cores().size()) >= usable_cores());
}
