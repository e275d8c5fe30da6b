#include "device/kernels.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace trainctl::device {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostRowBlocks = 65'535;  // a grid's second extent

struct ToFloat {
  __device__ float operator()(float value) const { return value; }
};
struct ToBfloat16 {
  __device__ __nv_bfloat16 operator()(float value) const { return __float2bfloat16_rn(value); }
};
struct ToHalf {
  __device__ __half operator()(float value) const { return __float2half_rn(value); }
};

/// A thread makes a pixel: neighbours in a warp write neighbours in memory, and the threads of a
/// block share a plan.
template <class Value, PixelOrder order, class Convert>
__global__ void __launch_bounds__(kThreads) gather_kernel(Gather job, Value* __restrict__ out) {
  const std::int64_t pixel = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pixel >= std::int64_t{job.height} * job.width) return;
  for (std::int64_t row = blockIdx.y; row < job.rows; row += gridDim.y)
    gather_pixel<Value, order>(job, out, row, static_cast<std::int32_t>(pixel), Convert());
}

template <class Value, class Convert>
void launch(const Gather& job, PixelOrder order, void* out, cudaStream_t stream) {
  const std::int64_t pixels = std::int64_t{job.height} * job.width;
  const dim3 grid(static_cast<unsigned>((pixels + kThreads - 1) / kThreads),
                  static_cast<unsigned>(job.rows < kMostRowBlocks ? job.rows : kMostRowBlocks));
  auto* const values = static_cast<Value*>(out);
  if (order == PixelOrder::channels_last)
    gather_kernel<Value, PixelOrder::channels_last, Convert>
        <<<grid, kThreads, 0, stream>>>(job, values);
  else
    gather_kernel<Value, PixelOrder::channels_first, Convert>
        <<<grid, kThreads, 0, stream>>>(job, values);
}

}  // namespace

bool kernels_built() { return true; }

const char* launch_gather(const Gather& job, PixelOrder order, ValueType type, void* out,
                          void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  switch (type) {
    case ValueType::f32: launch<float, ToFloat>(job, order, out, queue); break;
    case ValueType::bf16: launch<__nv_bfloat16, ToBfloat16>(job, order, out, queue); break;
    case ValueType::f16: launch<__half, ToHalf>(job, order, out, queue); break;
  }
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace trainctl::device
