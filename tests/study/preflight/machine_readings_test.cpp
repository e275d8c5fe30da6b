#include "study/preflight/machine_examination.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>
#include <random>

using namespace trainctl;
using namespace trainctl::study;

namespace {

void write_file(const TempFolder& root, const std::string& name, const std::string& text) {
  const fs::path file = root / name;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("read_machine_state: reads /proc and /sys") {
  TempFolder root;
  const std::string cpus = "sys/devices/system/cpu/";
  write_file(root, cpus + "cpu0/cpufreq/scaling_governor", "powersave\n");
  write_file(root, cpus + "cpu1/cpufreq/scaling_governor", "performance\n");
  write_file(root, cpus + "intel_pstate/no_turbo", "1\n");
  write_file(root, "proc/cpuinfo", "model name : x\nflags\t\t: fpu avx2 fma\n");
  write_file(root, "proc/meminfo",
             "MemTotal:  1000 kB\nMemAvailable:  500 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB\n");
  write_file(root, "proc/self/cgroup", "0::/job\n");
  write_file(root, "sys/fs/cgroup/job/memory.max", "409600\n");
  write_file(root, "sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  write_file(root, "sys/fs/cgroup/job/cpu.stat", "nr_periods 9\nnr_throttled 4\n");
  write_file(root, "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  write_file(root, "proc/self/limits",
             "Limit                     Soft Limit           Hard Limit           Units\n"
             "Max open files            256                  4096                 files\n"
             "Max locked memory         65536                unlimited            bytes\n");
  write_file(root, "proc/self/mountinfo",
             "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
             "2 1 0:30 / /data rw master:1 - nfs4 server:/x rw,vers=4\n"
             "3 1 0:40 / /dev/shm rw - tmpfs shm rw,size=65536k\n");
  write_file(root, "sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n");
  write_file(root, "sys/bus/pci/devices/0000:17:00.0/class", "0x030200\n");
  write_file(root, "sys/bus/pci/devices/0000:17:00.0/current_link_width", "8\n");
  write_file(root, "sys/bus/pci/devices/0000:17:00.0/max_link_width", "16\n");
  write_file(root, "sys/bus/pci/devices/0000:17:00.0/max_link_speed", "32.0 GT/s PCIe\n");
  write_file(root, "sys/bus/pci/devices/0000:18:00.0/vendor", "0x8086\n");
  write_file(root, "proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue\n");
  const auto readings = read_machine_state({.root = root.path(), .disk = "/data/set"});
  CHECK(readings.governors == std::map<std::string, int>{{"performance", 1}, {"powersave", 1}});
  CHECK(readings.turbo == false);
  CHECK(readings.cpu_flags == std::vector<std::string>{"fpu", "avx2", "fma"});
  CHECK(readings.memory_total == 1000 * 1024);
  CHECK(readings.swap_used == 60 * 1024);
  CHECK(readings.memory_limit == std::uint64_t{409600});
  CHECK(readings.cpu_quota == 1.5);
  CHECK(readings.throttled == 4);
  CHECK(readings.huge_pages == "never");
  CHECK(readings.open_files == std::uint64_t{256});
  CHECK(readings.open_files_hard == std::uint64_t{4096});
  CHECK(readings.locked_bytes == std::uint64_t{65536});
  CHECK(readings.shm_bytes == std::uint64_t{65536} * 1024);
  CHECK(readings.disk.type == "nfs4");
  REQUIRE(readings.gpus.size() == 1);
  CHECK(readings.gpus[0].width == 8);
  CHECK(readings.gpus[0].width_max == 16);
  CHECK(readings.gpus[0].speed_max == 32);
  CHECK(readings.kernel_driver == "580.95.05");
}

TEST_CASE("read_machine_state: finds the disk of a partition") {
  TempFolder root;
  write_file(root, "proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
  write_file(root, "sys/devices/x/sda/queue/rotational", "1\n");
  fs::create_directories(root / "sys/devices/x/sda/sda1");
  fs::create_directories(root / "sys/dev/block");
  fs::create_directory_symlink("../../devices/x/sda/sda1", root / "sys/dev/block/8:1");
  const auto readings = read_machine_state({.root = root.path(), .disk = "/data"});
  CHECK(readings.disk.device == "sda1");
  CHECK(readings.disk.rotational == true);
}

TEST_CASE("read_machine_state: missing files give no readings and no error") {
  TempFolder root;
  const auto readings = read_machine_state({.root = root.path(), .disk = "/"});
  CHECK(readings.governors.empty());
  CHECK_FALSE(readings.cpu_quota);
  CHECK_FALSE(readings.open_files);
  CHECK(readings.gpus.empty());
  CHECK(readings.huge_pages.empty());
}

TEST_CASE("read_machine_state: files with arbitrary content are not an error") {
  TempFolder root;
  std::mt19937 engine(3);
  const std::vector<std::string> names{"proc/self/limits",
                                       "proc/self/mountinfo",
                                       "proc/self/cgroup",
                                       "proc/meminfo",
                                       "proc/cpuinfo",
                                       "proc/driver/nvidia/version",
                                       "sys/kernel/mm/transparent_hugepage/enabled",
                                       "sys/bus/pci/devices/a/vendor",
                                       "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"};
  const std::vector<std::string> pieces{"Max open files",
                                        " - ",
                                        "]",
                                        "[",
                                        ":",
                                        "flags",
                                        "99999999999999999999999",
                                        "-1",
                                        "\n",
                                        "\x1b[2J",
                                        " ",
                                        "MemTotal:",
                                        "0::/",
                                        "../..",
                                        "size=",
                                        std::string(1, '\0')};
  for (int round = 0; round < 200; ++round) {
    for (const std::string& name : names) {
      std::string text;
      for (int i = 0; i < 12; ++i) text += pieces[engine() % pieces.size()];
      write_file(root, name, text);
    }
    const auto readings = read_machine_state({.root = root.path(), .disk = "/data"});
    CHECK_FALSE(report::grade_machine(readings).empty());
  }
}

TEST_CASE("read_machine_state: a folder instead of a file is ignored") {
  TempFolder root;
  fs::create_directories(root / "proc/meminfo");
  fs::create_directories(root / "proc/self/limits");
  CHECK(read_machine_state({.root = root.path(), .disk = "/"}).memory_total == 0);
}
