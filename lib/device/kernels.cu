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

constexpr int kFewLanes = 32;
constexpr int kManyLanes = 256;
constexpr std::int64_t kFewClasses = 1024;
constexpr std::int64_t kMostBlocks = 2'147'483'647;  // maximum grid size in x

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Both {
  __device__ RowSum operator()(const RowSum& a, const RowSum& b) const { return both(a, b); }
};

/// Reduces the parts of all lanes, always in the same order. Every lane gets the result.
template <int kLanes, class T, class Add>
__device__ T gathered(T part, T* parts, Add add) {
  parts[threadIdx.x] = part;
  __syncthreads();
  for (int half = kLanes / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] = add(parts[threadIdx.x], parts[threadIdx.x + half]);
    __syncthreads();
  }
  const T all = parts[0];
  __syncthreads();  // the shared memory is reused
  return all;
}

/// Each block processes one row at a time.
template <int kLanes>
__global__ void __launch_bounds__(kLanes) row_entropy_kernel(RowEntropy job) {
  __shared__ RowSum parts[kLanes];
  __shared__ float sums[kLanes];
  const int lane = static_cast<int>(threadIdx.x);
  for (std::int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
    const RowSum whole = gathered<kLanes>(lane_sum(job, row, lane, kLanes), parts, Both{});
    const float sum = gathered<kLanes>(lane_gradients(job, row, whole, lane, kLanes), sums, Sum{});
    if (lane == 0) job.losses[row] = row_loss(job, row, whole, sum);
  }
}

template <int kLanes>
void launch(const RowEntropy& job, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(job.rows < kMostBlocks ? job.rows : kMostBlocks);
  row_entropy_kernel<kLanes><<<blocks, kLanes, 0, stream>>>(job);
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

const char* launch_row_entropy(const RowEntropy& job, void* stream) {
  if (job.rows == 0) return nullptr;
  if (job.classes <= kFewClasses) {
    launch<kFewLanes>(job, static_cast<cudaStream_t>(stream));
  } else {
    launch<kManyLanes>(job, static_cast<cudaStream_t>(stream));
  }
  return launch_failure();
}

}  // namespace trainctl::device
