#include "study/workers/devices.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <cstdlib>

namespace trainctl::study {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

std::string visible_note() {
  const char* list = std::getenv(kVisible);
  return list == nullptr ? "" : fmt::format(" ({} is '{}')", kVisible, printable(list));
}

DeviceChoice on_cpu(const spec::Trainer& trainer) {
  return {.gpu = false, .ranks = trainer.devices.value_or(1), .visible = 0, .warning = {}};
}

}  // namespace

DeviceChoice choose_devices(const spec::Trainer& trainer, const Machine& machine,
                            const launch::ProbeGpus& probe) {
  using spec::Accelerator;
  if (trainer.accelerator == Accelerator::cpu) return on_cpu(trainer);
  const bool asked_for = trainer.accelerator == Accelerator::gpu;
  if (machine.gpus.empty()) {
    ENSURE(resource, !asked_for,
           "trainer.accelerator is gpu, but this machine has no NVIDIA device{}; use "
           "trainer.accelerator=cpu",
           visible_note());
    return on_cpu(trainer);
  }
  const launch::GpuProbe found = probe();
  if (found.count == 0) {
    ENSURE(resource, !asked_for,
           "trainer.accelerator is gpu, but {}{}; check the driver with 'trainctl doctor', or use "
           "trainer.accelerator=cpu",
           found.problem, visible_note());
    DeviceChoice choice = on_cpu(trainer);
    choice.warning = fmt::format(
        "{} GPU device file(s) are there, but {}: training on the CPU; check the driver with "
        "'trainctl doctor', or "
        "set trainer.accelerator=cpu",
        machine.gpus.size(), found.problem);
    return choice;
  }
  const int ranks = trainer.devices.value_or(found.count);
  ENSURE(resource, ranks <= found.count,
         "trainer.devices is {}, but the CUDA driver has {} GPU{}{}", ranks, found.count,
         found.count == 1 ? "" : "s", visible_note());
  return {.gpu = true, .ranks = ranks, .visible = found.count, .warning = {}};
}

}  // namespace trainctl::study
