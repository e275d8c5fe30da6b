#include "base/error.hpp"
#include "device/device.hpp"

namespace trainctl::device {

c10::Device choose_device(spec::Accelerator accelerator, int local_rank) {
  if (accelerator == spec::Accelerator::cpu) return c10::kCPU;
  const int found = cuda_devices();
  if (accelerator == spec::Accelerator::automatic && found == 0) return c10::kCPU;
  ENSURE(resource, local_rank < found,
         "trainer.accelerator asks for a GPU for local rank {}, but {} were found: check the "
         "driver with 'trainctl "
         "doctor', "
         "lower trainer.devices, or set trainer.accelerator=cpu",
         local_rank, found);
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank));
  use_cuda_device(device);
  return device;
}

}  // namespace trainctl::device
