#include "base/machine/resource_usage.hpp"

#include "base/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <unistd.h>

#include <string>

using namespace trainctl;

namespace {

constexpr const char* kName = "trainctl-loader";

std::string stat_of(const std::string& name, int user, int kernel) {
  return "11 (" + name + ") S 1 1 1 0 -1 4194304 100 0 7 0 " + std::to_string(user) + " " +
         std::to_string(kernel) + " 0 0 20 0 4 0 12345 0 0\n";
}

std::string pressure(const std::string& total) {
  return "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + total +
         "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
}

}  // namespace

TEST_CASE("read_usage: a kernel that reports nothing gives no values and no error") {
  const TempFolder root;
  const UsageCounters found = read_usage(kName, root.path());
  CHECK_FALSE(found.cpu_stalled_s);
  CHECK_FALSE(found.io_stalled_s);
  CHECK_FALSE(found.memory_stalled_s);
  CHECK_FALSE(found.throttled);
  CHECK_FALSE(found.thread_cpu_s);
  CHECK(found.threads == 0);
  CHECK_FALSE(memory_taken(root.path()));
}

TEST_CASE("read_usage: stall times are those of the innermost cgroup that reports them") {
  const TempFolder root;
  put_text(root / "proc/pressure/io", pressure("2500000"));
  CHECK(read_usage(kName, root.path()).io_stalled_s == 2.5);
  put_text(root / "proc/self/cgroup", "0::/slice/job\n");
  put_text(root / "sys/fs/cgroup/slice/io.pressure", pressure("1500000"));
  CHECK(read_usage(kName, root.path()).io_stalled_s == 1.5);
  put_text(root / "sys/fs/cgroup/slice/job/io.pressure", pressure("500000"));
  CHECK(read_usage(kName, root.path()).io_stalled_s == 0.5);
  CHECK_FALSE(read_usage(kName, root.path()).cpu_stalled_s);
}

TEST_CASE("read_usage: an invalid pressure file is ignored") {
  const TempFolder root;
  for (const std::string text :
       {"", "\n", "nonsense\n", "some\n", "some avg10=0.00\n", "some total=\n", "some total=-3\n",
        "some total=12x\n", "some total=99999999999999999999999\n", "full total=5\n",
        "\xff\xfe\n"}) {
    put_text(root / "proc/pressure/cpu", text);
    CHECK_FALSE(read_usage(kName, root.path()).cpu_stalled_s);
  }
}

TEST_CASE("read_usage: throttling is that of the cgroup with the most throttled periods") {
  const TempFolder root;
  put_text(root / "proc/self/cgroup", "0::/slice/job\n");
  put_text(root / "sys/fs/cgroup/slice/cpu.stat",
           "usage_usec 9\nnr_periods 100\nnr_throttled 40\n");
  put_text(root / "sys/fs/cgroup/slice/job/cpu.stat", "nr_periods 50\nnr_throttled 3\n");
  const UsageCounters found = read_usage(kName, root.path());
  CHECK(found.periods == 100);
  CHECK(found.throttled == 40);
}

TEST_CASE("read_usage: a cgroup without a quota or with a damaged cpu.stat has no throttling") {
  const TempFolder root;
  put_text(root / "proc/self/cgroup", "0::/job\n");
  for (const char* text :
       {"usage_usec 12\n", "nr_throttled\n", "nr_periods x\nnr_throttled 4\n", ""}) {
    put_text(root / "sys/fs/cgroup/job/cpu.stat", text);
    CHECK_FALSE(read_usage(kName, root.path()).throttled);
  }
}

TEST_CASE("read_usage: the CPU time of all threads with the given name is summed") {
  const TempFolder root;
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  put_text(root / "proc/self/task/11/stat", stat_of(kName, 300, 50));
  put_text(root / "proc/self/task/12/stat", stat_of(kName, 100, 0));
  put_text(root / "proc/self/task/13/stat", stat_of("other", 9000, 9000));
  put_text(root / "proc/self/task/14/stat", stat_of("a) S (trainctl", 9000, 9000));
  put_text(root / "proc/self/task/15/stat", "15 (trainctl-loader) S 1\n");
  put_text(root / "proc/self/task/16/stat", ")(");
  put_text(root / "proc/self/task/17/stat", "");
  const UsageCounters found = read_usage(kName, root.path());
  CHECK(found.threads == 2);
  REQUIRE(found.thread_cpu_s);
  CHECK(*found.thread_cpu_s == Approx(450 / ticks));
}

TEST_CASE("memory_taken: it is relative to the smallest limit") {
  const TempFolder root;
  put_text(root / "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 750 kB\n");
  CHECK(*memory_taken(root.path()) == Approx(0.25));
  put_text(root / "proc/self/cgroup", "0::/job\n");
  put_text(root / "sys/fs/cgroup/job/memory.max", "409600\n");
  put_text(root / "sys/fs/cgroup/job/memory.current", "368640\n");
  CHECK(memory_limit(root.path()) == 409600);
  CHECK(*memory_taken(root.path()) == Approx(0.9));
  put_text(root / "sys/fs/cgroup/job/memory.max", "max\n");
  CHECK(memory_limit(root.path()) == 1000 * 1024);
}

TEST_CASE("read_usage: the counters of this process never decrease") {
  const UsageCounters before = read_usage(kName);
  const UsageCounters after = read_usage(kName);
  CHECK(after.involuntary_switches >= before.involuntary_switches);
  CHECK(after.major_faults >= before.major_faults);
  if (before.cpu_stalled_s && after.cpu_stalled_s)
    CHECK(*after.cpu_stalled_s >= *before.cpu_stalled_s);
}
