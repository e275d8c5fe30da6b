#include "base/error.hpp"
#include "base/strings.hpp"
#include "device/device.hpp"
#include "device/event.hpp"
#include "device/host_read.hpp"
#include "device/kernels.hpp"
#include "device/pixel_conversion.hpp"
#include "log/log.hpp"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::device {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr const char* kTables = "tables to convert images";  // the place of host waits

/// The architectures of kernels.cu, as CMAKE_CUDA_ARCHITECTURES; empty without kernels.
constexpr std::string_view kArchitectures = TRAINCTL_KERNEL_ARCHITECTURES;

int architecture_of(const cudaDeviceProp& gpu) { return 10 * gpu.major + gpu.minor; }

double in_mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

class CudaEvent final : public Event {
 public:
  CudaEvent(c10::DeviceIndex device, EventUse use)
      : device_(device),
        event_(use == EventUse::timing ? cudaEventDefault : cudaEventDisableTiming) {}

  void record() override { event_.record(c10::cuda::getCurrentCUDAStream(device_)); }
  [[nodiscard]] bool is_done() const override { return event_.query(); }
  void wait() override { event_.synchronize(); }
  void block() override { event_.block(c10::cuda::getCurrentCUDAStream(device_)); }
  [[nodiscard]] double seconds_after(const Event& earlier) const override {
    return static_cast<const CudaEvent&>(earlier).event_.elapsed_time(event_) / 1e3;
  }

 private:
  c10::DeviceIndex device_;
  at::cuda::CUDAEvent event_;
};

class CudaPageLock final : public PageLock {
 public:
  /// Unlocks `memory` at the end; null: another object does.
  explicit CudaPageLock(void* memory) : memory_(memory) {}
  CudaPageLock(const CudaPageLock&) = delete;
  CudaPageLock& operator=(const CudaPageLock&) = delete;
  ~CudaPageLock() override {
    if (memory_ != nullptr && cudaHostUnregister(memory_) != cudaSuccess) (void)cudaGetLastError();
  }

 private:
  void* memory_;
};

bool is_page_locked(const std::byte& byte) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, &byte) == cudaSuccess)
    return attributes.type == cudaMemoryTypeHost;
  (void)cudaGetLastError();
  return false;
}

/// Feeds a GPU through two slots of its memory: the copy stream fills one while the step reads the
/// other. The copies read the loader's ring, which is page-locked; the loader keeps a batch there
/// until it is copied.
class CudaFeed final : public Feed {
 public:
  CudaFeed(at::Device device, const FeedOptions& options)
      : parts_(feed_parts(options)),
        classes_(options.classes),
        ignored_label_(options.ignored_label),
        held_(options.held),
        copies_(c10::cuda::getStreamFromPool(false, device.index())),
        lock_(lock_pages(device, options.ring)),
        copied_([device] { return make_event(device); }, options.in_flight) {
    ASSERT(!held_ || kernels_built());
    for (const FeedPart& part : parts_) {
      full_.push_back(at::empty(part.shape, at::TensorOptions(part.type).device(device)));
      const auto [shape, type] = staged(part);
      for (Slot& slot : slots_)
        slot.parts.push_back(at::empty(shape, at::TensorOptions(type).device(device)));
    }
    for (Slot& slot : slots_) slot.used = make_event(device);
    if (kernels_built()) {
      set_up_kernel(options, device);
    } else if (options.normalization) {
      const auto table = [device](const auto& values) {
        return copy_to(at::tensor(values).view({1, -1, 1, 1}), device, kTables);
      };
      mean_ = table(options.normalization->mean);
      std_ = table(options.normalization->std);
    }
    // Earlier work may still read the memory that the allocator has reused.
    at::cuda::CUDAEvent free;
    free.record(c10::cuda::getCurrentCUDAStream(device.index()));
    free.block(copies_);
  }
  CudaFeed(const CudaFeed&) = delete;
  CudaFeed& operator=(const CudaFeed&) = delete;
  ~CudaFeed() override {
    // If a copy still reads the pages, the process is about to end, which unlocks them.
    if (!copied_.drain_in_destructor()) (void)lock_.release();
  }

  void drain() override { copied_.drain(); }

  const DeviceBatch& put(const data::Batch& batch) override {
    const std::int64_t rows = std::max<std::int64_t>(batch.valid, 1);
    for (const FeedPart& part : parts_) {
      if (part.kind == FeedPart::Kind::classes)
        check_labels(batch.fields[part.field], rows, classes_, ignored_label_);
    }
    Slot& slot = slots_[next_++ % slots_.size()];
    {
      const c10::cuda::CUDAStreamGuard on(copies_);
      slot.used->block();
      for (std::size_t i = 0; i < parts_.size(); ++i)
        send(batch.fields[parts_[i].field], slot.parts[i]);
      copied_.current().record();
    }
    copied_.current().block();
    if (!lock_) await(copied_.current(), "copy of a batch from pageable memory");
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      batch_.*parts_[i].tensor = full_[i].narrow(0, 0, rows);
      load(parts_[i], slot.parts[i].narrow(0, 0, rows), batch_.*parts_[i].tensor);
    }
    slot.used->record();
    copied_.advance();
    batch_.valid = batch.valid;
    batch_.global_valid = batch.global_valid;
    return batch_;
  }

 private:
  struct Slot {
    std::vector<at::Tensor> parts;  // with the layout of the loader's memory
    std::unique_ptr<Event> used;    // after the step has read them
  };

  void set_up_kernel(const FeedOptions& options, at::Device device) {
    for (const FeedPart& part : parts_) {
      if (part.kind != FeedPart::Kind::image) continue;
      values_ = copy_to(at::tensor(gather_values(options, part.shape[1])), device, kTables);
      gather_ = gather_of(options, part);
      gather_.values = values_.const_data_ptr<float>();
    }
  }

  /// Returns shape and dtype of a part before its conversion to float.
  [[nodiscard]] std::pair<std::vector<std::int64_t>, at::ScalarType> staged(
      const FeedPart& part) const {
    const std::vector<std::int64_t>& shape = part.shape;
    if (part.kind != FeedPart::Kind::image) return {shape, part.type};
    if (held_) return {{shape[0], static_cast<std::int64_t>(sizeof(data::PixelPlan))}, at::kByte};
    return {{shape[0], shape[2], shape[3], shape[1]}, at::kByte};
  }

  void load(const FeedPart& part, const at::Tensor& from, const at::Tensor& to) const {
    if (part.kind != FeedPart::Kind::image) {
      to.copy_(from);
      return;
    }
    if (values_.defined()) return gather(from, to);
    to.copy_(from.permute({0, 3, 1, 2}));
    to.div_(255);
    if (mean_.defined()) to.sub_(mean_).div_(std_);
  }

  /// Converts the images with one kernel on the compute stream instead of the four operations of
  /// load().
  void gather(const at::Tensor& from, const at::Tensor& to) const {
    Gather job = gather_;
    const auto* bytes = from.const_data_ptr<std::uint8_t>();
    if (held_)
      job.plans = reinterpret_cast<const data::PixelPlan*>(bytes);
    else
      job.images = bytes;
    job.rows = to.size(0);
    const char* failure = launch_gather(job, to.mutable_data_ptr<float>(),
                                        c10::cuda::getCurrentCUDAStream().stream());
    if (failure != nullptr) throw_kernel_error();
    ENSURE(resource, failure == nullptr,
           "cannot make a batch of {} images on the GPU: {}\nhint: run 'trainctl doctor'", job.rows,
           failure);
  }

  /// Copies the rows of the batch, in the background if their memory is page-locked.
  void send(std::span<const std::byte> bytes, const at::Tensor& to) const {
    C10_CUDA_CHECK(cudaMemcpyAsync(to.mutable_data_ptr(), bytes.data(),
                                   std::min(bytes.size(), to.nbytes()), cudaMemcpyHostToDevice,
                                   copies_.stream()));
  }

  std::vector<FeedPart> parts_;
  std::vector<at::Tensor> full_;  // for max_rows rows, one per part
  std::int64_t classes_;
  std::optional<std::int64_t> ignored_label_;
  std::shared_ptr<const data::HeldImages> held_;  // null: batches contain pixels
  c10::cuda::CUDAStream copies_;
  std::unique_ptr<PageLock> lock_;  // of the loader's ring; null: it is pageable
  PendingCopies copied_;
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
  at::Tensor mean_, std_;  // used without kernels
  at::Tensor values_;      // undefined: without kernels
  Gather gather_;
  DeviceBatch batch_;
};

}  // namespace

int cuda_devices() { return static_cast<int>(c10::cuda::device_count()); }

void use_cuda_device(at::Device device) {
  try {
    // Initializes the allocator, whose statistics are read before the first tensor exists.
    at::globalContext().lazyInitDevice(at::kCUDA);
    // Creates the CUDA context here, where a failure is reported with the name of the device.
    c10::cuda::set_device(device.index(), /*force=*/true);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw Error(
        ErrorKind::resource,
        fmt::format("cannot use {}: {}\nhint: run 'trainctl doctor'; 'nvidia-smi' lists the "
                    "processes that use the GPU",
                    device.str(), text.substr(0, text.find('\n'))));
  }
}

bool kernels_built() {
  static const bool run = [] {
    if (kArchitectures.empty() || cuda_devices() == 0) return !kArchitectures.empty();
    return kernels_run_on(kArchitectures, architecture_of(*at::cuda::getCurrentDeviceProperties()));
  }();
  return run;
}

void throw_kernel_error() { c10::cuda::device_synchronize(); }

std::string kernel_obstacle(at::Device device) {
  if (!device.is_cuda() || kArchitectures.empty()) return {};
  const GpuInfo gpu = gpu_info(device);
  if (kernels_run_on(kArchitectures, gpu.architecture)) return {};
  return fmt::format(
      "trainctl's kernels are built for the architectures {}, and {} has compute "
      "capability {}",
      kArchitectures, gpu.name, gpu.capability);
}

std::unique_ptr<Feed> make_cuda_feed(at::Device device, const FeedOptions& options) {
  return std::make_unique<CudaFeed>(device, options);
}

void* current_stream(at::Device device) {
  return device.is_cuda() ? c10::cuda::getCurrentCUDAStream(device.index()).stream() : nullptr;
}

std::optional<double> cuda_peak_memory_mb(at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  return in_mib(allocator::getDeviceStats(device.index()).allocated_bytes[0].peak);
}

std::optional<double> cuda_memory_mb(at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  return in_mib(allocator::getDeviceStats(device.index()).allocated_bytes[0].current);
}

std::optional<std::int64_t> cuda_available_memory(at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  const c10::cuda::CUDAGuard on(device);
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    (void)cudaGetLastError();  // clears the error, which the next call would report otherwise
    return std::nullopt;
  }
  const auto stats = allocator::getDeviceStats(device.index());
  const std::int64_t unused = stats.reserved_bytes[0].current - stats.allocated_bytes[0].current;
  return static_cast<std::int64_t>(free) + unused;
}

GpuInfo gpu_info(at::Device device) {
  if (!device.is_cuda()) return {};
  const auto* properties = at::cuda::getDeviceProperties(device.index());
  int runtime = 0;
  C10_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  return {.name = properties->name,
          .pci_bus = fmt::format("{:08x}:{:02x}:{:02x}.0", properties->pciDomainID,
                                 properties->pciBusID, properties->pciDeviceID),
          .capability = fmt::format("{}.{}", properties->major, properties->minor),
          .architecture = architecture_of(*properties),
          .versions = fmt::format("runtime {}.{}, cuDNN {}", runtime / 1000, runtime % 1000 / 10,
                                  hooks.hasCuDNN() ? hooks.versionRuntimeCuDNN() : 0)};
}

bool has_peer_access(at::Device from, at::Device to) {
  return at::cuda::canDeviceAccessPeer(from.index(), to.index());
}

std::unique_ptr<Event> make_event(at::Device device, EventUse use) {
  if (!device.is_cuda()) return nullptr;
  return std::make_unique<CudaEvent>(device.index(), use);
}

std::unique_ptr<PageLock> lock_pages(at::Device device, std::span<const std::byte> memory) {
  if (!device.is_cuda() || memory.empty()) return nullptr;
  const c10::cuda::CUDAGuard on(device);
  auto* begin = const_cast<std::byte*>(memory.data());
  const cudaError_t failure = cudaHostRegister(begin, memory.size(), cudaHostRegisterDefault);
  if (failure == cudaSuccess) return std::make_unique<CudaPageLock>(begin);
  (void)cudaGetLastError();  // clears the error, which the next call would report otherwise
  if (failure == cudaErrorHostMemoryAlreadyRegistered && is_page_locked(memory.front()) &&
      is_page_locked(memory.back()))
    return std::make_unique<CudaPageLock>(nullptr);
  log::get().warn("cannot page-lock {} of memory, so the CPU waits for copies to the GPU: {}",
                  human_bytes(memory.size()), cudaGetErrorString(failure));
  return nullptr;
}

}  // namespace trainctl::device
