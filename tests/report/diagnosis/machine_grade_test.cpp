#include "report/diagnosis/machine_grade.hpp"

#include "support/catch.hpp"

#include <algorithm>

using namespace trainctl;
using namespace trainctl::report;

namespace {

constexpr std::uint64_t kGiB = 1 << 30;

/// Returns readings of a machine without faults.
MachineReadings healthy() {
  MachineReadings readings;
  readings.governors = {{"performance", 8}};
  readings.cores = 8;
  readings.cpu_flags = {"avx2", "fma"};
  readings.memory_total = 32 * kGiB;
  readings.memory_available = 20 * kGiB;
  readings.huge_pages = "madvise";
  readings.open_files = 4096;
  readings.shm_bytes = 8 * kGiB;
  readings.disk = {"/work", "ext4", "nvme0n1", false, 100 * kGiB, true};
  return readings;
}

GradeLine line_of(const MachineReadings& readings, const std::string& name) {
  const auto lines = grade_machine(readings);
  const auto found = std::ranges::find(lines, name, &GradeLine::name);
  REQUIRE(found != lines.end());
  return *found;
}

/// Returns the grade of a line, after a check that only faults have a cost and a fix.
Grade grade_of(const MachineReadings& readings, const std::string& name) {
  const GradeLine line = line_of(readings, name);
  CAPTURE(line.name, line.found);
  CHECK(line.costs.empty() == (line.grade == Grade::ok));
  CHECK(line.fix.empty() == (line.grade == Grade::ok));
  return line.grade;
}

}  // namespace

TEST_CASE("machine grade: ok for a good machine and for one without readings") {
  MachineReadings unread;
  unread.memory_available = 4 * kGiB;
  for (const MachineReadings& readings : {healthy(), unread}) {
    for (const GradeLine& line : grade_machine(readings)) {
      CAPTURE(line.name, line.found);
      CHECK(line.grade == Grade::ok);
      CHECK_FALSE(line.found.empty());
    }
  }
}

TEST_CASE("machine grade: faults of the processor are graded") {
  MachineReadings r = healthy();
  r.governors = {{"powersave", 8}};
  CHECK(grade_of(r, "governor") == Grade::degraded);
  r = healthy();
  r.cpu_quota = 2.5;
  CHECK(grade_of(r, "cpu limit") == Grade::degraded);
  r.cpu_quota = 0.5;
  CHECK(grade_of(r, "cpu limit") == Grade::bad);
  r.cpu_quota = 8;
  CHECK(grade_of(r, "cpu limit") == Grade::ok);
  CHECK(line_of(r, "cpu limit").found == "8 cores in the CPU affinity, a quota of 8");
  r.throttled = 12;
  CHECK(grade_of(r, "cpu limit") == Grade::degraded);
  CHECK_THAT(line_of(r, "cpu limit").found, EndsWith("a quota of 8, used up in 12 periods"));
  r.pressure = 20;
  CHECK(grade_of(r, "busy") == Grade::degraded);
  r.pressure = 80;
  CHECK(grade_of(r, "busy") == Grade::bad);
  r.cpu_flags = {"fma", "avx512_bf16", "sse4_2", "avx2"};
  CHECK(line_of(r, "instructions").found == "avx2 fma avx512_bf16");
  r.cpu_flags = {"sse4_2"};
  CHECK(grade_of(r, "instructions") == Grade::bad);
  r.environment = {{"OMP_WAIT_POLICY", "ACTIVE"}};
  CHECK(grade_of(r, "threads") == Grade::degraded);
  r.environment = {{"GOMP_SPINCOUNT", "infinity"}};
  CHECK(grade_of(r, "threads") == Grade::degraded);
}

TEST_CASE("machine grade: faults of memory, limits and disks are graded") {
  MachineReadings r = healthy();
  CHECK(line_of(r, "disk").found == "/work: ext4 on nvme0n1, 100.0 GiB free");
  r.memory_available = kGiB / 2;
  CHECK(grade_of(r, "memory") == Grade::bad);
  r = healthy();
  r.swap_used = 8 * kGiB;
  CHECK(grade_of(r, "memory") == Grade::degraded);
  r.huge_pages = "never";
  CHECK(grade_of(r, "huge pages") == Grade::degraded);
  CHECK(line_of(r, "limits").found == "at most 4,096 open files");
  r.open_files = 256;
  r.open_files_hard = 512;
  CHECK(grade_of(r, "limits") == Grade::degraded);
  CHECK(line_of(r, "limits").found == "at most 256 open files (can be raised to 512)");
  r.open_files = 64;
  CHECK(grade_of(r, "limits") == Grade::bad);
  r.locked_bytes = 65536;
  CHECK(grade_of(r, "locked memory") == Grade::ok);
  r.has_infiniband = true;
  CHECK(grade_of(r, "locked memory") == Grade::degraded);
  r.disk.type = "nfs4";
  CHECK(grade_of(r, "disk") == Grade::degraded);
  r.disk.type = "ext4";
  r.disk.rotational = true;
  CHECK(grade_of(r, "disk") == Grade::degraded);
  r.disk.free_bytes = 1000;
  CHECK(grade_of(r, "disk") == Grade::bad);
  r.disk.writable = false;
  CHECK(grade_of(r, "disk") == Grade::bad);
}

TEST_CASE("machine grade: faults of GPUs are graded") {
  MachineReadings r = healthy();
  r.gpus = {{"0000:17:00.0", 32, 32, 16, 16}, {"0000:18:00.0", 2.5, 32, 16, 16}};
  CHECK(grade_of(r, "pcie") == Grade::ok);  // the slow card is idle
  r.gpus[1].width = 4;
  CHECK(grade_of(r, "pcie") == Grade::degraded);
  r.shm_bytes = 64 << 20;
  CHECK(grade_of(r, "/dev/shm") == Grade::bad);
  r.gpus.resize(1);
  CHECK(grade_of(r, "/dev/shm") == Grade::ok);
  r.kernel_driver = "580.95.05";
  r.library_driver = "580.95.05";
  r.cuda = 13000;
  CHECK_THAT(line_of(r, "driver").found, Contains("supports CUDA 13.0"));
  CHECK(grade_of(r, "driver") == Grade::ok);
  r.cuda = 12080;
  CHECK(grade_of(r, "driver") == Grade::bad);
  r.cuda = 13000;
  r.library_driver = "575.1";
  CHECK(grade_of(r, "driver") == Grade::bad);
}

TEST_CASE("machine grade: control characters in system files are escaped") {
  MachineReadings r = healthy();
  r.governors = {{"\x1b[2Jpowersave", 1}};
  r.disk.device = "sda\n\x1b[1m";
  r.environment = {{"OMP_NUM_THREADS", "\x07"}};
  for (const GradeLine& line : grade_machine(r))
    CHECK(line.found.find_first_of("\x1b\x07\n") == std::string::npos);
}
