#include "report/diagnosis/gpu_grade.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <iterator>

namespace trainctl::report {
namespace {

using events::GpuChecked;

constexpr int kRequiredCuda = 13000;
constexpr double kRequiredCapability = 7.5;  // the least that CUDA 13 supports
constexpr double kKernelCapability = 8.0;
constexpr double kSlowGpu = 0.8;  // share of the fastest GPU's value
constexpr const char* kInstall =
    "install the NVIDIA driver 580 or newer; in a container: docker run --gpus all, or request "
    "nvidia.com/gpu in Kubernetes";

constexpr const char* kXid = "look for Xid messages of the driver: sudo dmesg | grep -i xid";

std::string cuda_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

GradeLine gpu_devices(const GpuFacts& facts) {
  const std::string visible =
      facts.visible ? fmt::format("; CUDA_VISIBLE_DEVICES is '{}'", printable(*facts.visible)) : "";
  const std::string found = fmt::format("{} device file{} (/dev/nvidia*){}", facts.device_files,
                                        plural(facts.device_files), visible);
  if (facts.device_files > 0 || facts.usable > 0)
    return grade_line("gpu devices", Grade::ok, found);
  return grade_line("gpu devices", Grade::broken, found, "", kInstall);
}

GradeLine gpu_driver(const GpuFacts& facts) {
  constexpr const char* kName = "gpu driver";
  if (facts.driver_mismatch)
    return grade_line(kName, Grade::broken, printable(facts.nvml_failure),
                      "no CUDA program can start", "reboot after an upgrade of the driver");
  if (facts.driver.empty()) {
    const std::string found = "not known: " + printable(facts.nvml_failure);
    if (facts.usable == 0) return grade_line(kName, Grade::broken, found, "", kInstall);
    return grade_line(kName, Grade::degraded, found,
                      "runs report no utilization, power and throttling",
                      "make libnvidia-ml.so.1 available (in a container: "
                      "NVIDIA_DRIVER_CAPABILITIES=compute,utility)");
  }
  std::string found = printable(facts.driver);
  if (facts.cuda) found += ", supports CUDA " + cuda_text(*facts.cuda);
  found += fmt::format(" (required: CUDA {}, which needs driver 580 or newer)",
                       cuda_text(kRequiredCuda));
  if (facts.cuda.value_or(kRequiredCuda) < kRequiredCuda)
    return grade_line(kName, Grade::broken, found, "libtorch cannot use GPUs",
                      "install driver 580 or newer");
  return grade_line(kName, Grade::ok, found);
}

GradeLine gpu_engine(const GpuFacts& facts) {
  constexpr const char* kName = "gpu engine";
  if (!facts.has_engine)
    return grade_line(kName, Grade::broken, "this build has no libtrainctl_engine_cuda.so", "",
                      "build with the CUDA wheel of torch 2.11: scripts/setup, then cmake --build "
                      "--preset release");
  if (!facts.has_kernels)
    return grade_line(
        kName, Grade::degraded, "libtrainctl_engine_cuda.so, without GPU kernels",
        "batches need more GPU operations, and dataset.cache.mode=device is unavailable",
        "put nvcc of CUDA 13 on PATH, remove build/, and build");
  return grade_line(kName, Grade::ok, "libtrainctl_engine_cuda.so, with GPU kernels");
}

GradeLine usable_gpus(const GpuFacts& facts) {
  const std::string found = facts.usable > 0 ? fmt::format("the CUDA driver finds {} GPU{}",
                                                           facts.usable, plural(facts.usable))
                                             : printable(facts.problem);
  if (facts.usable > 0) return grade_line("cuda", Grade::ok, found);
  const bool hides = facts.visible && facts.device_files > 0;
  return grade_line("cuda", Grade::broken, found, "training uses the CPU or is refused",
                    hides ? "correct or unset CUDA_VISIBLE_DEVICES; 'nvidia-smi -L' lists the GPUs"
                          : "run nvidia-smi, which must list the GPUs; on machines with NVSwitch, "
                            "nvidia-fabricmanager must run");
}

/// Returns the numbers of the GPUs for which a property holds: "GPU 0, 3"; empty if there are none.
template <class Holds>
std::string gpus_with(const std::vector<GpuState>& gpus, const Holds& holds) {
  std::vector<std::string> numbers;
  for (const GpuState& gpu : gpus) {
    if (holds(gpu)) numbers.push_back(std::to_string(gpu.index));
  }
  return numbers.empty() ? "" : "GPU " + join(numbers, ", ");
}

GradeLine gpu_model(const GpuState& gpu) {
  const std::string name = fmt::format("gpu {}", gpu.index);
  std::string found = printable(gpu.name);
  const auto capability = parse_number<double>(gpu.capability);
  if (capability) found += ", compute capability " + gpu.capability;
  found +=
      fmt::format(", {} of {} free", human_bytes(gpu.free_bytes), human_bytes(gpu.total_bytes));
  if (gpu.temperature) found += fmt::format(", {} C", *gpu.temperature);
  if (capability && *capability < kRequiredCapability)
    return grade_line(name, Grade::broken, found,
                      "CUDA 13 supports compute capability 7.5 and later (Turing)",
                      "use another GPU");
  if (capability && *capability < kKernelCapability)
    return grade_line(name, Grade::degraded, found,
                      "trainctl's own kernels and bfloat16 need compute capability 8.0 (Ampere)");
  return grade_line(name, Grade::ok, found);
}

GradeLine persistence_mode(const std::vector<GpuState>& all) {
  const std::string off =
      gpus_with(all, [](const GpuState& gpu) { return gpu.persistence == false; });
  if (off.empty())
    return grade_line("persistence", Grade::ok, "the driver stays loaded between runs");
  return grade_line("persistence", Grade::degraded, "persistence mode is off: " + off,
                    "the driver is loaded again for each run, which can take seconds",
                    "sudo systemctl enable --now nvidia-persistenced, or sudo nvidia-smi -pm 1");
}

GradeLine gpu_memory(const std::vector<GpuState>& all) {
  const std::string errors =
      gpus_with(all, [](const GpuState& gpu) { return gpu.memory_errors.value_or(0) > 0; });
  const std::string defects =
      gpus_with(all, [](const GpuState& gpu) { return gpu.needs_reset == true; });
  if (!errors.empty() || !defects.empty())
    return grade_line("gpu memory", Grade::bad,
                      errors.empty() ? "defective memory rows must be replaced: " + defects
                                     : "uncorrected memory errors: " + errors,
                      "a run can fail, or compute wrong numbers",
                      "sudo nvidia-smi --gpu-reset; if the errors return, have the card replaced");
  const std::string defective =
      gpus_with(all, [](const GpuState& gpu) { return gpu.is_defective == true; });
  if (!defective.empty())
    return grade_line("gpu memory", Grade::bad,
                      "defective memory rows cannot be replaced: " + defective,
                      "a run can fail, or compute wrong numbers", "have the card replaced");
  const std::string off = gpus_with(all, [](const GpuState& gpu) { return gpu.ecc == false; });
  return grade_line(
      "gpu memory", Grade::ok,
      off.empty() ? "no uncorrected errors" : "no errors reported; ECC is off: " + off);
}

GradeLine gpu_clocks(const std::vector<GpuState>& all) {
  const std::string hot = gpus_with(all, [](const GpuState& gpu) { return gpu.is_hot; });
  const std::string braked =
      gpus_with(all, [](const GpuState& gpu) { return gpu.is_power_limited; });
  if (!hot.empty())
    return grade_line("gpu clocks", Grade::bad, "reduced because of the temperature: " + hot,
                      "the GPU computes slower than it can", "improve the cooling");
  if (!braked.empty())
    return grade_line("gpu clocks", Grade::degraded, "reduced because of a power limit: " + braked,
                      "the GPU computes slower than it can",
                      "raise the limit: sudo nvidia-smi -pl WATTS");
  return grade_line("gpu clocks", Grade::ok, "not throttled");
}

GradeLine compute_mode(const std::vector<GpuState>& all) {
  const std::string none = gpus_with(all, [](const GpuState& gpu) { return gpu.is_prohibited; });
  const std::string one = gpus_with(all, [](const GpuState& gpu) { return gpu.is_exclusive; });
  if (!none.empty())
    return grade_line("gpu mode", Grade::broken, "the compute mode admits no process: " + none, "",
                      "sudo nvidia-smi -c 0");
  return grade_line(
      "gpu mode", Grade::ok,
      one.empty() ? "several processes can use a GPU" : "only one process can use " + one);
}

/// Returns the results of one check, in the order of ranks.
std::vector<GpuChecked> results_of(const GpuTest& test, const std::string& check) {
  std::vector<GpuChecked> results;
  std::ranges::copy_if(test.checks, std::back_inserter(results),
                       [&](const GpuChecked& one) { return one.check == check; });
  std::ranges::sort(results, {}, &GpuChecked::rank);
  return results;
}

/// Returns "51.2 TFLOP/s (error 3e-06)", with the values of all GPUs: "51.2, 50.9 TFLOP/s".
std::string values_text(const std::vector<GpuChecked>& results) {
  std::vector<std::string> values;
  std::optional<double> error;
  std::string unit;
  for (const GpuChecked& one : results) {
    if (one.value) values.push_back(fmt::format("{:.3g}", *one.value));
    if (one.value) unit = one.unit;
    if (one.error) error = std::max(error.value_or(0), *one.error);
  }
  std::string text = values.empty() ? "" : join(values, ", ") + " " + printable(unit);
  if (error) text += fmt::format(" (error {:.1g})", *error);
  return text;
}

/// Returns the findings of all GPUs: the text that is the same on each only once.
std::string texts_of(const std::vector<GpuChecked>& results) {
  std::vector<std::string> texts;
  for (const GpuChecked& one : results) {
    if (one.found.empty() || std::ranges::find(texts, printable(one.found)) != texts.end())
      continue;
    texts.push_back(printable(one.found));
  }
  return join(texts, "; ");
}

/// Returns "GPU 1 (PCI 00000000:c1:00.0)": CUDA's number depends on CUDA_VISIBLE_DEVICES, but the
/// address is the one that nvidia-smi shows.
std::string gpu_label(const GpuChecked& one) {
  const std::string address = one.pci_bus.empty() ? "" : " (PCI " + printable(one.pci_bus) + ")";
  return fmt::format("GPU {}{}", one.rank, address);
}

/// Returns the GPUs that are much slower than the fastest one.
std::string slow_gpus(const std::vector<GpuChecked>& results) {
  const bool is_speed = results.front().unit.ends_with("/s");
  double most = 0;
  for (const GpuChecked& one : results) most = std::max(most, one.value.value_or(0));
  std::vector<std::string> slow;
  for (const GpuChecked& one : results) {
    if (is_speed && one.value && *one.value < kSlowGpu * most) slow.push_back(gpu_label(one));
  }
  return join(slow, ", ");
}

GradeLine check_line(const GpuTest& test, const std::string& check) {
  const std::vector<GpuChecked> results = results_of(test, check);
  GradeLine graded = grade_line(check, Grade::ok, values_text(results));
  const std::string texts = texts_of(results);
  if (!texts.empty()) graded.found += (graded.found.empty() ? "" : ": ") + texts;
  for (const GpuChecked& one : results) {
    // The processes of the other GPUs are ended when one fails.
    const bool is_cut = !one.done && one.rank != test.failed_gpu.value_or(one.rank);
    if (is_cut || (one.done && one.failure.empty())) continue;
    std::string cause = one.failure;
    if (!one.done) cause = test.failure.empty() ? "it did not end" : test.failure;
    return grade_line(check, Grade::broken, fmt::format("{}: {}", gpu_label(one), one_line(cause)),
                      "results of this GPU cannot be trusted", kXid);
  }
  if (const std::string slow = slow_gpus(results); !slow.empty()) {
    graded.grade = Grade::degraded;
    graded.costs = slow + " is slower than the others, which wait for it";
    graded.fix = "look for throttling, other processes and PCIe lanes: nvidia-smi -q";
  }
  if (check == "peer access" && !texts.empty()) {
    graded.grade = Grade::degraded;
    graded.costs = "NCCL sends gradients between these GPUs through the memory of the host";
    graded.fix =
        "disable ACS in the BIOS, or IOMMU for virtual machines; 'nvidia-smi topo -p2p r' "
        "shows the cause";
  }
  return graded;
}

std::vector<GradeLine> check_lines(const GpuTest& test) {
  std::vector<GradeLine> lines;
  std::vector<std::string> names;
  for (const GpuChecked& one : test.checks) {
    if (std::ranges::find(names, one.check) == names.end()) names.push_back(one.check);
  }
  for (const std::string& name : names) lines.push_back(check_line(test, name));
  const bool is_named =
      std::ranges::any_of(lines, [](const GradeLine& one) { return one.grade == Grade::broken; });
  if (!test.failure.empty() && !is_named)
    lines.push_back(grade_line("self-test", Grade::broken, one_line(test.failure), "", kXid));
  return lines;
}

Json gpu_check_json(const GpuChecked& one) {
  return joined({{{"gpu", one.rank}},
                 JSON_FIELDS(one, pci_bus, check),
                 {{"passed", one.done && one.failure.empty()}},
                 JSON_FIELDS(one, failure, found, value, unit, error)});
}

Json gpu_state_json(const GpuState& gpu) {
  const char* throttled = gpu.is_hot ? "heat" : gpu.is_power_limited ? "power" : "";
  return joined({JSON_FIELDS(gpu, index, name, uuid),
                 {{"compute_capability", gpu.capability}},
                 JSON_FIELDS(gpu, total_bytes, free_bytes),
                 {{"temperature_c", or_null(gpu.temperature)},
                  {"persistence_mode", or_null(gpu.persistence)},
                  {"ecc", or_null(gpu.ecc)},
                  {"uncorrected_errors", or_null(gpu.memory_errors)},
                  {"throttled", or_null(throttled)}}});
}

}  // namespace

void add_check(GpuTest& test, const GpuChecked& event) {
  const auto begun = std::ranges::find_if(test.checks, [&](const GpuChecked& one) {
    return one.rank == event.rank && one.check == event.check;
  });
  if (begun == test.checks.end()) {
    test.checks.push_back(event);
  } else {
    *begun = event;
  }
}

std::vector<GradeLine> grade_gpus(const GpuFacts& facts) {
  std::vector<GradeLine> lines{gpu_devices(facts), gpu_driver(facts), usable_gpus(facts),
                               gpu_engine(facts)};
  for (const GpuState& gpu : facts.gpus) lines.push_back(gpu_model(gpu));
  if (!facts.gpus.empty()) {
    for (const auto& property : {persistence_mode, gpu_memory, gpu_clocks, compute_mode})
      lines.push_back(property(facts.gpus));
  }
  if (!facts.test) return lines;
  const std::vector<GradeLine> checks = check_lines(*facts.test);
  lines.insert(lines.end(), checks.begin(), checks.end());
  return lines;
}

Json gpu_facts_json(const GpuFacts& facts) {
  const auto test_json = [](const GpuTest& test) -> Json {
    return {{"failure", test.failure}, {"checks", json_list(test.checks, gpu_check_json)}};
  };
  return joined({JSON_FIELDS(facts, driver, cuda, usable, problem),
                 {{"gpus", json_list(facts.gpus, gpu_state_json)},
                  {"self_test", or_null(facts.test, test_json)}}});
}

}  // namespace trainctl::report
