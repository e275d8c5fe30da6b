#include "report/diagnosis/machine_grade.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

namespace trainctl::report {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;
constexpr int kCuda = 13000;

GradeLine ok(std::string found) { return {Grade::ok, std::move(found)}; }

GradeLine governor(const MachineReadings& r) {
  if (r.governors.empty()) return ok("not reported by the kernel (as in most virtual machines)");
  std::vector<std::string> parts;
  int slow = 0;
  for (const auto& [name, cores] : r.governors) {
    parts.push_back(fmt::format("{} on {} core{}", printable(name), cores, plural(cores)));
    if (name == "powersave" || name == "conservative") slow += cores;
  }
  std::string found = join(parts, ", ");
  if (r.turbo) found += *r.turbo ? ", turbo on" : ", turbo off";
  if (slow == 0) return ok(found);
  return {Grade::degraded, found,
          "CPU clocks rise slowly: loading and kernel launches take longer, and times vary between "
          "runs",
          "sudo cpupower frequency-set -g performance"};
}

GradeLine cpu_limit(const MachineReadings& r) {
  std::string found = fmt::format("{} core{} in the CPU affinity", r.cores, plural(r.cores));
  if (!r.cpu_quota) return ok(found + ", no quota");
  found += fmt::format(", a quota of {:.2g}", *r.cpu_quota);
  if (r.throttled > 0) found += fmt::format(", used up in {} periods", r.throttled);
  if (*r.cpu_quota < 1)
    return {Grade::bad, found, "all threads are paused for a part of the time",
            "give the container a core or more: docker run --cpus 4, or resources.limits.cpu"};
  if (r.throttled > 0 || *r.cpu_quota < r.cores)
    return {Grade::degraded, found, "when the quota is used up, all threads pause for up to 0.1 s",
            "raise the quota (docker run --cpus, resources.limits.cpu) or pin cores "
            "(--cpuset-cpus)"};
  return ok(found);
}

GradeLine pressure(const MachineReadings& r) {
  const std::string found =
      fmt::format("a thread waited for a core in {:.0f} % of the last 10 s", r.pressure);
  if (r.pressure < 10) return ok(found);
  return {r.pressure < 50 ? Grade::degraded : Grade::bad, found,
          "other programs use the cores, so measured speeds are too low",
          "find them with: top -o %CPU"};
}

GradeLine features(const MachineReadings& r) {
  const auto has = [&](const char* flag) {
    return std::ranges::find(r.cpu_flags, flag) != r.cpu_flags.end();
  };
  if (r.cpu_flags.empty()) return ok("not reported by the kernel");
  std::vector<std::string> found;
  for (const char* flag : {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"}) {
    if (has(flag)) found.emplace_back(flag);
  }
  const std::string text = found.empty() ? "neither AVX2 nor AVX-512" : join(found, " ");
  if (!has("avx2"))
    return {Grade::bad, text, "matrix products on the CPU take several times longer",
            "use a CPU made after 2014, or the virtual CPU type 'host'"};
  const bool bf16 = has("avx512_bf16") || has("amx_bf16");
  return ok(bf16 ? text : text + "; no bfloat16, so keep trainer.precision: 32-true on the CPU");
}

GradeLine memory(const MachineReadings& r) {
  std::string found = fmt::format("{} of {} available", human_bytes(r.memory_available),
                                  human_bytes(r.memory_total));
  if (r.memory_limit && *r.memory_limit < r.memory_total)
    found += fmt::format(", limited to {} by a control group", human_bytes(*r.memory_limit));
  if (r.swap_used > 0) found += fmt::format(", {} swapped out", human_bytes(r.swap_used));
  if (r.memory_available < kGiB)
    return {Grade::bad, found, "a worker needs about 1 GiB for libtorch alone",
            "end other programs, or raise the limit: docker run --memory, resources.limits.memory"};
  if (r.swap_used > r.memory_total / 10 && r.swap_used > kGiB)
    return {Grade::degraded, found, "reading pages back from swap blocks the loader",
            "stop what uses the memory, then: sudo swapoff -a && sudo swapon -a"};
  return ok(found);
}

GradeLine huge_pages(const MachineReadings& r) {
  const std::string found =
      r.huge_pages.empty() ? "not reported by the kernel" : printable(r.huge_pages);
  if (r.huge_pages != "never") return ok(found);
  return {Grade::degraded, found, "reading a cache in random order causes many TLB misses",
          "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"};
}

GradeLine open_files(const MachineReadings& r) {
  if (!r.open_files) return ok("no limit, or not known");
  std::string found = fmt::format("at most {} open files", with_thousands(*r.open_files));
  if (r.open_files_hard && *r.open_files_hard > *r.open_files)
    found += fmt::format(" (can be raised to {})", with_thousands(*r.open_files_hard));
  if (*r.open_files >= 1024) return ok(found);
  return {*r.open_files < 128 ? Grade::bad : Grade::degraded, found,
          "a run with many shards or several ranks may run out of file descriptors",
          "ulimit -n 4096"};
}

GradeLine locked_memory(const MachineReadings& r) {
  const std::string found = r.locked_bytes ? human_bytes(*r.locked_bytes) : std::string("no limit");
  if (!r.locked_bytes || !r.has_infiniband) return ok(found);
  return {Grade::degraded, found + ", and there is InfiniBand",
          "NCCL cannot register its buffers and falls back to TCP",
          "ulimit -l unlimited, or docker run --ulimit memlock=-1"};
}

GradeLine shared_memory(const MachineReadings& r) {
  if (!r.shm_bytes) return ok("not known");
  const std::string found = human_bytes(*r.shm_bytes);
  if (r.gpus.size() < 2 || *r.shm_bytes >= 512 * kMiB) return ok(found);
  return {Grade::bad, fmt::format("{}, for {} GPUs", found, r.gpus.size()),
          "NCCL needs /dev/shm: a run on several GPUs may fail at its first all-reduce",
          "docker run --shm-size 1g or --ipc host, or an emptyDir of medium Memory at /dev/shm"};
}

bool is_remote(const std::string& type) {
  constexpr std::array kRemote{"nfs",  "cifs", "smb",    "fuse", "lustre",
                               "ceph", "9p",   "beegfs", "gpfs", "glusterfs"};
  return std::ranges::any_of(kRemote, [&](const char* name) { return type.starts_with(name); });
}

GradeLine disk(const MachineReadings& r) {
  const DiskReading& d = r.disk;
  std::string found = d.path.empty() ? "not known" : printable(d.path);
  if (!d.type.empty()) found += ": " + printable(d.type);
  if (!d.device.empty()) found += " on " + printable(d.device);
  if (d.free_bytes) found += fmt::format(", {} free", human_bytes(*d.free_bytes));
  if (d.writable == false)
    return {Grade::bad, found + ", not writable", "run folders are created in the current folder",
            "give --out DIR"};
  if (d.free_bytes && *d.free_bytes < kGiB)
    return {Grade::bad, found, "a checkpoint may not fit",
            "make room, or give --out DIR on another disk"};
  if (is_remote(d.type))
    return {Grade::degraded, found, "each small file costs a network round trip",
            "set dataset.cache.local to a local folder, or pack the data: trainctl data pack"};
  if (d.rotational == true)
    return {Grade::degraded, found + ", a hard disk",
            "reading a sample in random order takes about 10 ms, unless it is cached",
            "pack the data (trainctl data pack), or copy it to an SSD"};
  return ok(found);
}

GradeLine pcie(const MachineReadings& r) {
  if (r.gpus.empty()) return ok("no GPU");
  std::vector<std::string> parts;
  bool narrow = false;
  for (const PciGpu& gpu : r.gpus) {
    parts.push_back(fmt::format("{}: {} of {} lanes at {:g} of {:g} GT/s", printable(gpu.address),
                                gpu.width, gpu.width_max, gpu.speed, gpu.speed_max));
    narrow = narrow || (gpu.width > 0 && gpu.width < gpu.width_max);
  }
  const std::string found = join(parts, "; ");
  if (!narrow) return ok(found + " (an idle card lowers its speed)");
  return {Grade::degraded, found, "batches are copied over fewer PCIe lanes than the card has",
          "reseat the card or use another slot; a virtual machine may report a wrong width"};
}

GradeLine nvlink(const MachineReadings& r) {
  const std::string found = fmt::format("{} active link{}", r.nvlinks, plural(r.nvlinks));
  if (r.gpus.size() < 2 || r.nvlinks > 0) return ok(found);
  return ok(found + ": gradients go over PCIe; 'trainctl doctor --link' measures how fast");
}

GradeLine driver(const MachineReadings& r) {
  if (r.kernel_driver.empty() && r.library_driver.empty()) return ok("no NVIDIA driver");
  std::string found = fmt::format("kernel module {}, library {}",
                                  r.kernel_driver.empty() ? "-" : printable(r.kernel_driver),
                                  r.library_driver.empty() ? "-" : printable(r.library_driver));
  const bool differ =
      !r.kernel_driver.empty() && !r.library_driver.empty() && r.kernel_driver != r.library_driver;
  if (r.driver_mismatch || differ)
    return {Grade::bad, found, "no CUDA program can start",
            "reboot after an upgrade of the driver, or: sudo rmmod nvidia_uvm nvidia && sudo "
            "modprobe nvidia"};
  if (!r.cuda) return ok(found);
  found += fmt::format(", supports CUDA {}.{}", *r.cuda / 1000, *r.cuda % 1000 / 10);
  if (*r.cuda >= kCuda) return ok(found);
  return {Grade::bad, found, "libtorch needs CUDA 13.0, so GPUs are not used",
          "install driver 580 or newer"};
}

GradeLine threads(const MachineReadings& r) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : r.environment)
    parts.push_back(fmt::format("{}={}", printable(name), printable(value)));
  const std::string found = parts.empty() ? "no OpenMP or MKL variable is set" : join(parts, " ");
  const auto value_of = [&](const char* name) {
    const auto at = r.environment.find(name);
    return at == r.environment.end() ? std::string() : lower_case(at->second);
  };
  const std::string spins = value_of("GOMP_SPINCOUNT");
  const char* variable = value_of("OMP_WAIT_POLICY") == "active"      ? "OMP_WAIT_POLICY"
                         : spins == "infinity" || spins == "infinite" ? "GOMP_SPINCOUNT"
                                                                      : nullptr;
  if (variable != nullptr)
    return {Grade::degraded, found,
            "idle threads that spin slow down all threads on the same cores",
            fmt::format("unset {}", variable)};
  return ok(found);
}

}  // namespace

GradeLine grade_line(std::string name, Grade grade, std::string found, std::string costs,
                     std::string fix) {
  return {grade, std::move(found), std::move(costs), std::move(fix), std::move(name)};
}

std::vector<GradeLine> grade_machine(const MachineReadings& readings) {
  using Check = GradeLine (*)(const MachineReadings&);
  constexpr std::pair<const char*, Check> kChecks[] = {
      {"governor", governor},      {"cpu limit", cpu_limit}, {"busy", pressure},
      {"instructions", features},  {"memory", memory},       {"threads", threads},
      {"huge pages", huge_pages},  {"limits", open_files},   {"locked memory", locked_memory},
      {"/dev/shm", shared_memory}, {"disk", disk},           {"pcie", pcie},
      {"nvlink", nvlink},          {"driver", driver}};
  std::vector<GradeLine> lines;
  for (const auto& [name, check] : kChecks) {
    lines.push_back(check(readings));
    lines.back().name = name;
  }
  return lines;
}

}  // namespace trainctl::report
