#include "base/error.hpp"
#include "base/machine/host_waits.hpp"
#include "base/strings.hpp"
#include "device/device.hpp"
#include "device/kernels.hpp"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>

namespace trainctl::device {
namespace {

// Two buffers of this size are page-locked while a data set is being sent.
constexpr std::size_t kStageBytes = std::size_t{16} << 20;
constexpr const char* kPlace = "images that the GPU keeps";  // of the host waits

/// Fills one half of the staging memory while the other half is being copied.
class CudaMemory final : public data::ImageMemory {
 public:
  CudaMemory(at::Device device, at::Tensor bytes, std::size_t image_bytes)
      : bytes_(std::move(bytes)), copies_(c10::cuda::getStreamFromPool(false, device.index())) {
    const std::size_t length = std::max(image_bytes, kStageBytes / image_bytes * image_bytes);
    for (Half& half : halves_) {
      half.host = at::empty({static_cast<std::int64_t>(length)},
                            at::TensorOptions(at::kByte).pinned_memory(true));
    }
    // Earlier work may still read the memory that the allocator has reused.
    at::cuda::CUDAEvent free;
    free.record(c10::cuda::getCurrentCUDAStream(device.index()));
    free.block(copies_);
  }

  std::span<std::byte> stage() override {
    Half& half = halves_.at(current_);
    count_host_wait(kPlace);
    half.sent.synchronize();
    return {static_cast<std::byte*>(half.host.mutable_data_ptr()), half.host.nbytes()};
  }

  void send(std::uint64_t offset, std::size_t bytes) override {
    Half& half = halves_.at(current_);
    current_ = 1 - current_;
    const c10::cuda::CUDAStreamGuard on(copies_);
    const auto length = static_cast<std::int64_t>(bytes);
    bytes_.narrow(0, static_cast<std::int64_t>(offset), length)
        .copy_(half.host.narrow(0, 0, length), /*non_blocking=*/true);
    half.sent.record(copies_);
  }

  void finish() override {
    for (Half& half : halves_) {
      count_host_wait(kPlace);
      half.sent.synchronize();
      half.host.reset();
    }
  }

  [[nodiscard]] const std::byte* address() const override {
    return static_cast<const std::byte*>(bytes_.const_data_ptr());
  }

 private:
  struct Half {
    at::Tensor host;
    at::cuda::CUDAEvent sent{cudaEventDisableTiming};
  };

  at::Tensor bytes_;
  c10::cuda::CUDAStream copies_;
  std::array<Half, 2> halves_;
  std::size_t current_ = 0;
};

class CudaImages final : public data::ImageDevice {
 public:
  explicit CudaImages(at::Device device) : device_(device) {}

  [[nodiscard]] std::uint64_t free_bytes() const override {
    const c10::cuda::CUDAGuard on(device_);
    std::size_t free = 0;
    std::size_t total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
  }

  [[nodiscard]] std::unique_ptr<data::ImageMemory> allocate(
      std::uint64_t bytes, std::size_t image_bytes) const override {
    try {
      at::Tensor memory = at::empty({static_cast<std::int64_t>(bytes)},
                                    at::TensorOptions(at::kByte).device(device_));
      return std::make_unique<CudaMemory>(device_, std::move(memory), image_bytes);
    } catch (const c10::Error& error) {
      throw Error(
          ErrorKind::resource,
          fmt::format("cannot allocate {} on {} for the images of the data set ({} free): "
                      "{}\nhint: set dataset.cache.mode: auto, which keeps as many images as fit",
                      human_bytes(bytes), device_.str(), human_bytes(free_bytes()),
                      error.what_without_backtrace()));
    }
  }

 private:
  at::Device device_;
};

}  // namespace

std::unique_ptr<data::ImageDevice> make_image_device(at::Device device) {
  if (!device.is_cuda() || !kernels_built()) return nullptr;
  return std::make_unique<CudaImages>(device);
}

}  // namespace trainctl::device
