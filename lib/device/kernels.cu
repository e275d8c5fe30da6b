#include "device/kernels.hpp"

#include <cuda_runtime.h>

namespace trainctl::device {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostRowBlocks = 65'535;  // maximum grid size in y

/// Each thread computes a pixel: neighbors in a warp write adjacent memory, and the threads of a
/// block share a plan.
__global__ void __launch_bounds__(kThreads)
    gather_kernel(Gather job, float* __restrict__ inputs_nchw) {
  const std::int64_t pixel = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pixel >= std::int64_t{job.height} * job.width) return;
  for (std::int64_t row = blockIdx.y; row < job.rows; row += gridDim.y)
    gather_pixel(job, inputs_nchw, row, static_cast<std::int32_t>(pixel));
}

constexpr int kAverageThreads = 256;

__global__ void __launch_bounds__(kAverageThreads) average_weights_kernel(AverageWeights job) {
  const AverageChunk chunk = job.chunks[blockIdx.x];
  lane_average(chunk, job.share, static_cast<int>(threadIdx.x), kAverageThreads);
}

/// Returns why the last launch failed; null if it succeeded.
const char* launch_failure() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

const char* launch_gather(const Gather& job, float* inputs_nchw, void* stream) {
  const std::int64_t pixels = std::int64_t{job.height} * job.width;
  const dim3 grid(static_cast<unsigned>((pixels + kThreads - 1) / kThreads),
                  static_cast<unsigned>(job.rows < kMostRowBlocks ? job.rows : kMostRowBlocks));
  gather_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(job, inputs_nchw);
  return launch_failure();
}

const char* launch_average_weights(const AverageWeights& job, void* stream) {
  if (job.count == 0) return nullptr;
  average_weights_kernel<<<static_cast<unsigned>(job.count), kAverageThreads, 0,
                           static_cast<cudaStream_t>(stream)>>>(job);
  return launch_failure();
}

}  // namespace trainctl::device
