#include "base/error.hpp"
#include "device/device.hpp"
#include "device/kernels.hpp"

namespace trainctl::device {
namespace {

[[noreturn]] void throw_no_cuda() {
  throw Error(
      ErrorKind::resource,
      "cannot use a GPU: this process has loaded trainctl's engine for CPUs, which has no CUDA "
      "support\nhint: set trainer.accelerator=cpu");
}

}  // namespace

int cuda_devices() { return 0; }

bool kernels_built() { return false; }

void use_cuda_device(at::Device /*device*/) { throw_no_cuda(); }

std::unique_ptr<Feed> make_cuda_feed(at::Device /*device*/, const FeedOptions& /*options*/) {
  throw_no_cuda();
}

std::unique_ptr<data::ImageDevice> make_image_device(at::Device /*device*/) { return nullptr; }

void throw_kernel_error() {}

std::string kernel_obstacle(at::Device /*device*/) { return {}; }

std::optional<double> cuda_peak_memory_mb(at::Device /*device*/) { return std::nullopt; }

std::optional<double> cuda_memory_mb(at::Device /*device*/) { return std::nullopt; }

std::optional<std::int64_t> cuda_available_memory(at::Device /*device*/) { return std::nullopt; }

GpuInfo gpu_info(at::Device /*device*/) { return {}; }

bool has_peer_access(at::Device /*from*/, at::Device /*to*/) { return false; }

std::unique_ptr<Event> make_event(at::Device /*device*/, EventUse /*use*/) { return nullptr; }

std::unique_ptr<PageLock> lock_pages(at::Device /*device*/, std::span<const std::byte> /*memory*/) {
  return nullptr;
}

std::unique_ptr<StepGraph> make_step_graph(c10::Device /*device*/) { return nullptr; }

void* current_stream(at::Device /*device*/) { return nullptr; }

}  // namespace trainctl::device
