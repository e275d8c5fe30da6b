#include "base/error.hpp"
#include "base/machine/host_waits.hpp"
#include "device/device.hpp"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <mutex>

namespace trainctl::device {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// Makes later work on `second` wait for the work on `first`.
void order(c10::cuda::CUDAStream first, c10::cuda::CUDAStream second) {
  at::cuda::CUDAEvent event{cudaEventDisableTiming};
  event.record(first);
  event.block(second);
}

template <class Call>
void attempt(Call&& call) noexcept {
  try {
    call();
  } catch (...) {  // it was not started or has ended already
  }
}

/// When a capture fails, libtorch ends it without informing its allocators, which would keep the
/// step's memory for good. abandon() releases it.
class Graph final : public at::cuda::CUDAGraph {
 public:
  void abandon() noexcept {
    cudaGraph_t rest = nullptr;
    if (cudaStreamEndCapture(capture_stream_, &rest) == cudaSuccess && rest != nullptr)
      cudaGraphDestroy(rest);
    (void)cudaGetLastError();  // clears the error, which an unrelated check would report otherwise
    if (capture_ended_ || capture_dev_ == UNDEFINED_DEVICE) return;
    auto* host = at::getHostAllocator(at::kCUDA);
    attempt([&] { allocator::endAllocateToPool(capture_dev_, mempool_id_); });
    attempt([&] { host->end_allocate_to_pool(mempool_id_); });
    attempt([&] { allocator::releasePool(capture_dev_, mempool_id_); });
    attempt([&] { host->release_pool(mempool_id_); });
  }
};

class CudaStepGraph final : public StepGraph {
 public:
  explicit CudaStepGraph(c10::DeviceIndex device)
      : device_(device), stream_(c10::cuda::getStreamFromPool(false, device)) {}

  void warm_up(const Work& work) override {
    const auto outer = c10::cuda::getCurrentCUDAStream(device_);
    order(outer, stream_);
    {
      const c10::cuda::CUDAStreamGuard on(stream_);
      work();
    }
    order(stream_, outer);
  }

  std::size_t record(const Work& work) override {
    count_host_wait("capture of a CUDA graph");
    c10::cuda::device_synchronize();
    if (graphs_.empty()) allocator::emptyCache();  // a graph allocates from the device
    const std::int64_t reserved = reserved_bytes();
    const at::Tensor draws = random_state();
    Graph& graph = graphs_.emplace_back();
    try {
      capture(graph, work);
    } catch (...) {
      graph.abandon();
      replace_generator(draws);
      throw;
    }
    taken_ += reserved_bytes() - reserved;
    check_free_memory(taken_);
    order(stream_, c10::cuda::getCurrentCUDAStream(device_));
    return graphs_.size() - 1;
  }

  void replay(std::size_t graph) override { graphs_.at(graph).replay(); }

 private:
  /// All graphs use the pool of the first one: the temporary tensors of one graph are free when
  /// the next one runs. libtorch registers the default generator with the graph, so that each
  /// replay draws the numbers that an eager step would draw.
  void capture(Graph& graph, const Work& work) {
    const c10::cuda::CUDAStreamGuard on(stream_);
    const auto pool = graphs_.size() > 1 ? graphs_.front().pool() : c10::MempoolId_t{0, 0};
    // Other threads may use CUDA during the capture.
    graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    work();
    graph.capture_end();
  }

  [[nodiscard]] at::Generator generator() const {
    return at::cuda::detail::getDefaultCUDAGenerator(device_);
  }

  [[nodiscard]] at::Tensor random_state() const {
    at::Generator draws = generator();
    const std::lock_guard<std::mutex> lock(draws.mutex());
    return draws.get_state();
  }

  /// The generator of a failed capture refuses to draw outside of a capture, so it is replaced.
  void replace_generator(const at::Tensor& state) const {
    at::Generator fresh = at::cuda::detail::createCUDAGenerator(device_);
    fresh.set_state(state);
    at::Generator draws = generator();
    const std::lock_guard<std::mutex> lock(draws.mutex());
    draws.graphsafe_set_state(fresh);
  }

  [[nodiscard]] std::int64_t reserved_bytes() const {
    return allocator::getDeviceStats(device_).reserved_bytes[0].current;
  }

  /// Throws Error(resource) if an eager step no longer fits: a graph keeps its memory, and steps
  /// that are not replayed need as much again.
  static void check_free_memory(std::int64_t taken) {
    std::size_t free = 0;
    std::size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    ENSURE(resource, static_cast<std::int64_t>(free) >= taken,
           "a CUDA graph occupies {0} MiB, and steps that run without the graph need another {0} "
           "MiB, but only {1} MiB are free",
           taken >> 20, free >> 20);
  }

  c10::DeviceIndex device_;
  c10::cuda::CUDAStream stream_;
  std::deque<Graph> graphs_;
  std::int64_t taken_ = 0;  // bytes of the pool
};

}  // namespace

std::unique_ptr<StepGraph> make_step_graph(c10::Device device) {
  if (!device.is_cuda()) return nullptr;
  return std::make_unique<CudaStepGraph>(device.index());
}

}  // namespace trainctl::device
