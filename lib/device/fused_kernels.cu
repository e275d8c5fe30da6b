#include "device/kernels.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// The kernels that combine operators of a training step. They read and write device memory as often
// as their traffic() says, never wait or allocate, and use no atomics: all sums have a fixed order.

namespace trainctl::device {
namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct MergeSums {
  __device__ RowSum operator()(const RowSum& a, const RowSum& b) const { return merge_sums(a, b); }
};
struct MergeMoments {
  __device__ Moments operator()(const Moments& a, const Moments& b) const {
    return merge_moments(a, b);
  }
};
struct AddSums {
  __device__ NormSums operator()(const NormSums& a, const NormSums& b) const { return add(a, b); }
};

constexpr unsigned kAllLanes = 0xffffffff;

__device__ float from_lane(float value, int lane) { return __shfl_sync(kAllLanes, value, lane); }
__device__ RowSum from_lane(const RowSum& value, int lane) {
  return {from_lane(value.largest, lane), from_lane(value.sum, lane)};
}
__device__ NormSums from_lane(const NormSums& value, int lane) {
  return {from_lane(value.plain, lane), from_lane(value.scaled, lane)};
}
__device__ Moments from_lane(const Moments& value, int lane) {
  return {from_lane(value.count, lane), from_lane(value.mean, lane),
          from_lane(value.squares, lane)};
}

/// Reduces the parts of a warp, always in the same order. Every lane gets the result.
template <class T, class Add>
__device__ T reduce_warp(T part, Add add_parts) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int half = kWarp / 2; half > 0; half /= 2) {
    // The upper lanes compute numbers that nothing reads.
    const T other = from_lane(part, (lane + half) % kWarp);
    part = add_parts(part, other);
  }
  return from_lane(part, 0);
}

/// Reduces the parts of the threads with the same threadIdx.y: a warp, or the whole block, whose
/// size is a multiple of a warp. `none` is neutral.
template <class T, class Add>
__device__ T reduce_row(T part, T none, Add add_parts) {
  part = reduce_warp(part, add_parts);
  if (blockDim.x == kWarp) return part;
  __shared__ T warps[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // the shared memory is reused
  if (lane == 0) warps[warp] = part;
  __syncthreads();
  const int count = static_cast<int>(blockDim.x) / kWarp;
  return reduce_warp(lane < count ? warps[lane] : none, add_parts);
}

constexpr int kWarpRows = 4;  // rows of a block whose rows have a warp each

// ---- cross entropy

template <class T, int kThreads, bool kProbabilities>
__global__ void __launch_bounds__(kThreads, kProbabilities ? 1 : 1280 / kThreads)
    row_entropy_kernel(RowEntropy job) {
  if (is_done(job)) return;
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= job.rows) return;  // with several rows in a block, the lanes of a row are a warp
  const int lane = static_cast<int>(threadIdx.x);
  const int lanes = static_cast<int>(blockDim.x);
  RowTarget target = row_target(job, row);
  if constexpr (kProbabilities)
    target.total = reduce_row(lane_total<T>(job, row, lane, lanes), 0.0F, Sum{});
  RowStats stats;
  if (job.losses == nullptr) {
    stats = {job.stats[2 * row], job.stats[2 * row + 1]};
  } else {
    const RowSum none{-std::numeric_limits<float>::infinity(), 0};
    stats = stats_of(reduce_row(lane_sum<T>(job, row, lane, lanes), none, MergeSums{}));
  }
  float sum = 0;
  if (reads_twice(job))
    sum = lane_gradients<T, kProbabilities>(job, row, target, stats, lane, lanes);
  if (job.losses == nullptr) return;
  if (sums_all_classes(job)) sum = reduce_row(sum, 0.0F, Sum{});
  if (lane != 0) return;
  job.losses[row] = row_loss<T>(job, row, target, stats, sum);
  if (job.stats == nullptr) return;
  job.stats[2 * row] = stats.largest;
  job.stats[2 * row + 1] = stats.log_sum;
}

constexpr std::int64_t kFewClasses = 1024;
constexpr std::int64_t kManyClasses = 8192;

/// A row has a warp, or a block. Blocks of many threads keep few rows in flight, so that the cache
/// still holds a row when it is read for the second time.
template <class T, bool kProbabilities>
void launch_entropy(const RowEntropy& job, cudaStream_t stream) {
  constexpr int kBlock = 256;
  constexpr int kLargeBlock = 512;
  const auto rows = static_cast<unsigned>(job.rows);
  if (job.classes <= kFewClasses) {
    const dim3 block(kWarp, kWarpRows);
    row_entropy_kernel<T, kWarp * kWarpRows, kProbabilities>
        <<<(rows + kWarpRows - 1) / kWarpRows, block, 0, stream>>>(job);
  } else if (job.classes <= kManyClasses) {
    row_entropy_kernel<T, kBlock, kProbabilities><<<rows, kBlock, 0, stream>>>(job);
  } else {
    row_entropy_kernel<T, kLargeBlock, kProbabilities><<<rows, kLargeBlock, 0, stream>>>(job);
  }
}

// ---- residual connection and layer norm

constexpr int kNormThreads = 256;

template <class T>
__global__ void __launch_bounds__(kNormThreads) add_norm_kernel(AddNorm job) {
  extern __shared__ __align__(kPackBytes) float memory[];
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= job.rows) return;  // with several rows in a block, the lanes of a row are a warp
  float* values = memory + threadIdx.y * job.width;
  const int lane = static_cast<int>(threadIdx.x);
  const int lanes = static_cast<int>(blockDim.x);
  const float total = reduce_row(lane_add<T>(job, row, values, lane, lanes), 0.0F, Sum{});
  const float mean = total / static_cast<float>(job.width);
  const float squares = reduce_row(lane_squares(job, values, mean, lane, lanes), 0.0F, Sum{});
  const float inverse = inverse_deviation(job, squares);
  lane_normalize<T>(job, row, values, mean, inverse, lane, lanes);
  if (lane != 0) return;
  job.stats[2 * row] = mean;
  job.stats[2 * row + 1] = inverse;
}

template <class T>
void launch_norm(const AddNorm& job, cudaStream_t stream) {
  constexpr std::int64_t kWidestWarp = 1024;
  const int per_block = job.width <= kWidestWarp ? kWarpRows : 1;
  const dim3 block(per_block == 1 ? kNormThreads : kWarp, per_block);
  const auto blocks = static_cast<unsigned>((job.rows + per_block - 1) / per_block);
  const auto bytes = static_cast<std::size_t>(job.width) * per_block * sizeof(float);
  add_norm_kernel<T><<<blocks, block, bytes, stream>>>(job);
}

/// Each block processes every gridDim.x-th row and sums the gradients of weight and bias.
template <class T>
__global__ void __launch_bounds__(kNormThreads) add_norm_backward_kernel(AddNormBackward job) {
  extern __shared__ __align__(kPackBytes) float columns[];  // [2, width]
  const int lane = static_cast<int>(threadIdx.x);
  const int lanes = static_cast<int>(blockDim.x);
  for (std::int64_t c = lane; c < 2 * job.width; c += lanes) columns[c] = 0;
  __syncthreads();
  for (std::int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
    const NormSums sums =
        reduce_row(lane_norm_sums<T>(job, row, lane, lanes), NormSums{0, 0}, AddSums{});
    lane_norm_gradients<T>(job, row, sums, columns, lane, lanes);
  }
  __syncthreads();
  float* parts = job.parts + std::int64_t{blockIdx.x} * 2 * job.width;
  for (std::int64_t c = lane; c < 2 * job.width; c += lanes) parts[c] = columns[c];
}

/// Adds the partial sums [parts, columns]: the first `width` columns to `first`, the others to
/// `second`.
struct AddParts {
  const float* parts;
  std::int64_t count;
  std::int64_t columns;
  std::int64_t width;
  float* first;
  float* second;
};

__global__ void __launch_bounds__(kWarp* kWarp) add_parts_kernel(AddParts job) {
  __shared__ float sums[kWarp][kWarp + 1];
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float sum = 0;
  if (column < job.columns) {
    for (std::int64_t part = threadIdx.y; part < job.count; part += kWarp)
      sum += job.parts[part * job.columns + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const float all = reduce_warp(sums[threadIdx.x][threadIdx.y], Sum{});  // of column threadIdx.y
  const std::int64_t to = std::int64_t{blockIdx.x} * kWarp + threadIdx.y;
  if (threadIdx.x != 0 || to >= job.columns) return;
  if (to < job.width) {
    job.first[to] = all;
  } else {
    job.second[to - job.width] = all;
  }
}

void add_parts(const AddParts& job, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((job.columns + kWarp - 1) / kWarp);
  add_parts_kernel<<<blocks, dim3(kWarp, kWarp), 0, stream>>>(job);
}

template <class T>
void launch_norm_backward(const AddNormBackward& job, cudaStream_t stream) {
  const std::int64_t quads = (job.width / kQuad + kWarp - 1) / kWarp * kWarp;
  const auto threads = static_cast<unsigned>(quads < kNormThreads ? quads : kNormThreads);
  const auto parts = static_cast<unsigned>(parts_of(job.rows));
  const auto bytes = static_cast<std::size_t>(job.width) * 2 * sizeof(float);
  add_norm_backward_kernel<T><<<parts, threads, bytes, stream>>>(job);
  add_parts({job.parts, parts, 2 * job.width, job.width, job.weight_grad, job.bias_grad}, stream);
}

// ---- bias and GELU

/// A warp processes adjacent columns of a row, and the warps of a block different rows.
template <class T, bool kTanh, bool kBackward>
__global__ void __launch_bounds__(kWarp* kGeluRows) bias_gelu_kernel(BiasGelu job) {
  constexpr int kCount = kPackOf<T>;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kWarp + threadIdx.x) * kCount;
  const std::int64_t first = std::int64_t{blockIdx.y} * kGeluRows + threadIdx.y;
  const std::int64_t step = std::int64_t{gridDim.y} * kGeluRows;
  if constexpr (!kBackward) {
    if (column < job.width) gelu_columns<kTanh, T>(job, column, first, step);
  } else {
    __shared__ float sums[kGeluRows][kWarp * kCount];
    Pack<float, kCount> sum{};
    if (column < job.width) sum = gelu_gradients<kTanh, T>(job, column, first, step);
    for (int i = 0; i < kCount; ++i) sums[threadIdx.y][threadIdx.x * kCount + i] = sum.values[i];
    __syncthreads();
    const int lane = static_cast<int>(threadIdx.y * kWarp + threadIdx.x);
    const std::int64_t to = std::int64_t{blockIdx.x} * kWarp * kCount + lane;
    if (lane >= kWarp * kCount || to >= job.width) return;
    float all = 0;
    for (int row = 0; row < kGeluRows; ++row) all += sums[row][lane];
    job.parts[blockIdx.y * job.width + to] = all;
  }
}

template <class T, bool kTanh>
void launch_gelu(const BiasGelu& job, cudaStream_t stream) {
  constexpr std::int64_t kTile = std::int64_t{kWarp} * kPackOf<T>;
  const auto parts = static_cast<unsigned>(gelu_parts(job.width, job.rows));
  const dim3 grid(static_cast<unsigned>((job.width + kTile - 1) / kTile), parts);
  const dim3 block(kWarp, kGeluRows);
  if (job.gradient == nullptr) {
    bias_gelu_kernel<T, kTanh, false><<<grid, block, 0, stream>>>(job);
    return;
  }
  bias_gelu_kernel<T, kTanh, true><<<grid, block, 0, stream>>>(job);
  add_parts({job.parts, parts, job.width, job.width, job.bias_grad, nullptr}, stream);
}

// ---- batch norm and relu

template <class T>
__global__ void __launch_bounds__(kNormReluThreads) block_moments_kernel(BatchMoments job) {
  constexpr int kCount = kPackOf<T>;
  __shared__ float means[kNormReluThreads * kCount];  // [rows, channels] of the block
  __shared__ float squares[kNormReluThreads * kCount];
  __shared__ float counts[kNormReluThreads];  // [rows]
  const int rows = static_cast<int>(blockDim.y);
  const int width = static_cast<int>(blockDim.x) * kCount;
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const std::int64_t tile = std::int64_t{blockIdx.x} * width;
  const std::int64_t channel = tile + std::int64_t{threadIdx.x} * kCount;
  PackMoments<T> own{};
  if (channel < job.channels)
    own = lane_moments<T>(job, channel, std::int64_t{blockIdx.y} * rows + threadIdx.y,
                          std::int64_t{gridDim.y} * rows);
  for (int i = 0; i < kCount; ++i) {
    means[thread * kCount + i] = own.mean.values[i];
    squares[thread * kCount + i] = own.squares.values[i];
  }
  if (threadIdx.x == 0) counts[threadIdx.y] = own.count;
  __syncthreads();
  for (int column = thread; column < width; column += kNormReluThreads) {
    if (tile + column >= job.channels) continue;
    Moments all{};
    for (int row = 0; row < rows; ++row)
      all = merge_moments(
          all, {counts[row], means[row * width + column], squares[row * width + column]});
    float* part = job.parts + std::int64_t{blockIdx.y} * 3 * job.channels + tile + column;
    part[0] = all.count;
    part[job.channels] = all.mean;
    part[2 * job.channels] = all.squares;
  }
}

/// Merges the parts, like add_parts_kernel().
__global__ void __launch_bounds__(kWarp* kWarp)
    merge_moments_kernel(BatchMoments job, std::int64_t parts) {
  __shared__ Moments moments[kWarp][kWarp + 1];
  const std::int64_t channel = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  Moments own{};
  if (channel < job.channels) {
    for (std::int64_t i = threadIdx.y; i < parts; i += kWarp) {
      const float* part = job.parts + i * 3 * job.channels + channel;
      own = merge_moments(own, {part[0], part[job.channels], part[2 * job.channels]});
    }
  }
  moments[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  const Moments all = reduce_warp(moments[threadIdx.x][threadIdx.y], MergeMoments{});
  const std::int64_t to = std::int64_t{blockIdx.x} * kWarp + threadIdx.y;
  if (threadIdx.x == 0 && to < job.channels) write_moments(job, to, all);
}

template <class T>
void launch_moments(const BatchMoments& job, cudaStream_t stream) {
  const NormReluGrid size = norm_relu_grid<T>(job);
  const dim3 grid(static_cast<unsigned>(size.tiles), static_cast<unsigned>(size.blocks));
  block_moments_kernel<T><<<grid, dim3(size.lanes, size.rows), 0, stream>>>(job);
  const auto blocks = static_cast<unsigned>((job.channels + kWarp - 1) / kWarp);
  merge_moments_kernel<<<blocks, dim3(kWarp, kWarp), 0, stream>>>(job, size.blocks);
}

template <bool kAdds, class T>
__global__ void __launch_bounds__(kNormReluThreads) norm_relu_kernel(BatchNormRelu job) {
  const std::int64_t channel = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPackOf<T>;
  if (channel >= job.channels) return;
  lane_norm_relu<kAdds, T>(job, channel, std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y,
                           std::int64_t{gridDim.y} * blockDim.y);
}

template <bool kAdds, class T>
__global__ void __launch_bounds__(kNormReluThreads)
    norm_relu_gradients_kernel(BatchNormReluBackward job) {
  const std::int64_t channel = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPackOf<T>;
  if (channel >= job.channels) return;
  lane_norm_relu_gradients<kAdds, T>(job, channel,
                                     std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y,
                                     std::int64_t{gridDim.y} * blockDim.y);
}

template <bool kAdds, class T>
__global__ void __launch_bounds__(kNormReluThreads)
    norm_relu_sums_kernel(BatchNormReluBackward job) {
  constexpr int kCount = kPackOf<T>;
  __shared__ float sums[2][kNormReluThreads * kCount];  // each [rows, channels] of the block
  const int rows = static_cast<int>(blockDim.y);
  const int width = static_cast<int>(blockDim.x) * kCount;
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const std::int64_t tile = std::int64_t{blockIdx.x} * width;
  const std::int64_t channel = tile + std::int64_t{threadIdx.x} * kCount;
  NormReluSums<T> own{};
  if (channel < job.channels)
    own = lane_norm_relu_sums<kAdds, T>(job, channel, std::int64_t{blockIdx.y} * rows + threadIdx.y,
                                        std::int64_t{gridDim.y} * rows);
  for (int i = 0; i < kCount; ++i) {
    sums[0][thread * kCount + i] = own.plain.values[i];
    sums[1][thread * kCount + i] = own.scaled.values[i];
  }
  __syncthreads();
  for (int i = thread; i < 2 * width; i += kNormReluThreads) {
    const int kind = i / width;
    const int column = i % width;
    if (tile + column >= job.channels) continue;
    float all = 0;
    for (int row = 0; row < rows; ++row) all += sums[kind][row * width + column];
    job.parts[(std::int64_t{blockIdx.y} * 2 + kind) * job.channels + tile + column] = all;
  }
}

template <class T>
void launch_norm_relu(const BatchNormRelu& job, cudaStream_t stream) {
  const NormReluGrid size = norm_relu_grid<T>(job);
  const dim3 grid(static_cast<unsigned>(size.tiles), static_cast<unsigned>(size.blocks));
  const dim3 block(size.lanes, size.rows);
  if (job.residual == nullptr) {
    norm_relu_kernel<false, T><<<grid, block, 0, stream>>>(job);
  } else {
    norm_relu_kernel<true, T><<<grid, block, 0, stream>>>(job);
  }
}

template <bool kAdds, class T>
void launch_norm_relu_backward(const BatchNormReluBackward& job, cudaStream_t stream) {
  const NormReluGrid size = norm_relu_grid<T>(job);
  const dim3 grid(static_cast<unsigned>(size.tiles), static_cast<unsigned>(size.blocks));
  const dim3 block(size.lanes, size.rows);
  norm_relu_sums_kernel<kAdds, T><<<grid, block, 0, stream>>>(job);
  add_parts(
      {job.parts, size.blocks, 2 * job.channels, job.channels, job.bias_grad, job.weight_grad},
      stream);
  if (job.x_grad != nullptr) norm_relu_gradients_kernel<kAdds, T><<<grid, block, 0, stream>>>(job);
}

/// Returns why the last launch failed; null if it succeeded.
const char* launch_failure() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

struct EntropyLauncher {
  template <class T>
  static void launch(const RowEntropy& job, cudaStream_t stream) {
    if (job.probabilities == nullptr) {
      launch_entropy<T, false>(job, stream);
    } else {
      launch_entropy<T, true>(job, stream);
    }
  }
};
struct NormLauncher {
  template <class T>
  static void launch(const AddNorm& job, cudaStream_t stream) {
    launch_norm<T>(job, stream);
  }
  template <class T>
  static void launch(const AddNormBackward& job, cudaStream_t stream) {
    launch_norm_backward<T>(job, stream);
  }
};
struct NormReluLauncher {
  template <class T>
  static void launch(const BatchMoments& job, cudaStream_t stream) {
    launch_moments<T>(job, stream);
  }
  template <class T>
  static void launch(const BatchNormRelu& job, cudaStream_t stream) {
    launch_norm_relu<T>(job, stream);
  }
  template <class T>
  static void launch(const BatchNormReluBackward& job, cudaStream_t stream) {
    if (job.residual_grad == nullptr) {
      launch_norm_relu_backward<false, T>(job, stream);
    } else {
      launch_norm_relu_backward<true, T>(job, stream);
    }
  }
};
struct GeluLauncher {
  template <class T>
  static void launch(const BiasGelu& job, cudaStream_t stream) {
    if (job.tanh) {
      launch_gelu<T, true>(job, stream);
    } else {
      launch_gelu<T, false>(job, stream);
    }
  }
};

template <class Launcher, class Job>
const char* launch_for_type(const Job& job, void* to) {
  if (job.rows == 0) return nullptr;
  const auto stream = static_cast<cudaStream_t>(to);
  switch (job.type) {
    case Element::float32: Launcher::template launch<float>(job, stream); break;
    case Element::bfloat16: Launcher::template launch<__nv_bfloat16>(job, stream); break;
    case Element::float16: Launcher::template launch<__half>(job, stream); break;
  }
  return launch_failure();
}

}  // namespace

const char* launch_row_entropy(const RowEntropy& job, void* stream) {
  return launch_for_type<EntropyLauncher>(job, stream);
}

const char* launch_add_norm(const AddNorm& job, void* stream) {
  return launch_for_type<NormLauncher>(job, stream);
}

const char* launch_add_norm_backward(const AddNormBackward& job, void* stream) {
  return launch_for_type<NormLauncher>(job, stream);
}

const char* launch_bias_gelu(const BiasGelu& job, void* stream) {
  return launch_for_type<GeluLauncher>(job, stream);
}

const char* launch_batch_moments(const BatchMoments& job, void* stream) {
  return launch_for_type<NormReluLauncher>(job, stream);
}

const char* launch_batch_norm_relu(const BatchNormRelu& job, void* stream) {
  return launch_for_type<NormReluLauncher>(job, stream);
}

const char* launch_batch_norm_relu_backward(const BatchNormReluBackward& job, void* stream) {
  return launch_for_type<NormReluLauncher>(job, stream);
}

}  // namespace trainctl::device
