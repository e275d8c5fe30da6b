#include "base/error.hpp"
#include "base/strings.hpp"
#include "device/device.hpp"
#include "device/kernels.hpp"
#include "device/pixel_conversion.hpp"
#include "engine/failure.hpp"
#include "engine/jobs/jobs.hpp"
#include "engine/setup/run_components.hpp"

#include <ATen/Context.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace trainctl::engine {
namespace {

using events::GpuChecked;

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;
constexpr double kSumTimeoutS = 60;  // of a collective

/// The device and the sizes of the checks, which are small on a CPU: there only tests run them.
struct TestedDevice {
  at::Device device;
  std::int64_t memory = kMiB;   // bytes that are written and read back
  std::int64_t matrix = 256;    // rows and columns of a product
  std::int64_t copied = kMiB;   // bytes of a copy
  std::int64_t reduced = kMiB;  // bytes of an all-reduce

  [[nodiscard]] at::TensorOptions of(at::ScalarType type) const {
    return at::TensorOptions(type).device(device);
  }
};

TestedDevice subject_on(at::Device device) {
  if (device.is_cpu()) return {device};
  constexpr std::int64_t kMatrices = 4;  // of float32, including a second product
  const std::int64_t share = device::cuda_available_memory(device).value_or(kGiB) / 4;
  std::int64_t matrix = 8192;
  while (matrix > 1024 && kMatrices * matrix * matrix * 4 > share) matrix /= 2;
  return {device, std::clamp(share, kMiB, 8 * kGiB), matrix, 256 * kMiB, 64 * kMiB};
}

/// Waits until the device has computed the tensor.
void wait_for(const at::Tensor& tensor) { (void)tensor.view(-1).select(0, 0).item(); }

/// Returns the mean seconds of `work`, which returns a tensor that it computes. The first two calls
/// are not timed, because they load kernels.
template <class Work>
double seconds_of(const Work& work) {
  constexpr int kRepeats = 10;
  for (int i = 0; i < 2; ++i) wait_for(work());
  const double begin = steady_clock().now();
  at::Tensor last;
  for (int i = 0; i < kRepeats; ++i) last = work();
  wait_for(last);
  return (steady_clock().now() - begin) / kRepeats;
}

/// Allocates the first tensor, for which libtorch initializes the device.
void initialize(at::Device device, GpuChecked& checked) {
  wait_for(at::zeros({1}, at::TensorOptions(at::kFloat).device(device)));
  const device::GpuInfo info = device::gpu_info(device);
  checked.found = device.is_cpu()
                      ? "a CPU"
                      : fmt::format("{}, compute capability {}, PCI {}, CUDA {}", info.name,
                                    info.capability, info.pci_bus, info.versions);
}

void load_nccl(GpuChecked& checked) {
  const std::string version = dist::nccl_version();
  checked.found = version.empty() ? "not part of this engine" : "NCCL " + version;
}

/// Writes a different number to each block of memory before the first one is read back.
void check_memory(const TestedDevice& subject, GpuChecked& checked) {
  constexpr std::int64_t kPattern = 0x5a5a'a5a5'0000'0000;
  std::vector<at::Tensor> blocks;
  for (std::int64_t left = subject.memory; left > 0; left -= kGiB) {
    const auto words = std::min(left, kGiB) / static_cast<std::int64_t>(sizeof(std::int64_t));
    blocks.push_back(at::full({words}, kPattern + std::ssize(blocks), subject.of(at::kLong)));
  }
  for (std::int64_t i = 0; i < std::ssize(blocks); ++i) {
    const auto [least, most] = at::aminmax(blocks[static_cast<std::size_t>(i)]);
    if (least.item<std::int64_t>() != kPattern + i || most.item<std::int64_t>() != kPattern + i)
      checked.failure =
          fmt::format("block {} of {} does not contain what was written", i + 1, blocks.size());
  }
  checked.found = human_bytes(subject.memory) + " were written and read back";
}

/// Allows TF32 in products of float32 matrices during its lifetime, or excludes it. Restores
/// libtorch's default, because no other code of this job has changed it.
class MatmulPrecision {
 public:
  explicit MatmulPrecision(bool tf32) {
    at::globalContext().setFloat32MatmulPrecision(tf32 ? "high" : "highest");
  }
  ~MatmulPrecision() { at::globalContext().setFloat32MatmulPrecision("highest"); }
  MatmulPrecision(const MatmulPrecision&) = delete;
  MatmulPrecision& operator=(const MatmulPrecision&) = delete;
};

/// A data type and the largest device::product_error() that its rounding can cause.
struct Product {
  at::ScalarType type = at::kFloat;
  bool tf32 = false;
  double tolerance = 1e-3;
};

void check_product(const TestedDevice& subject, const Product& product, GpuChecked& checked) {
  const MatmulPrecision precision(product.tf32);
  const std::int64_t n = subject.matrix;
  const at::Tensor a = at::randn({n, n}, subject.of(product.type));
  const at::Tensor b = at::randn({n, n}, subject.of(product.type));
  const at::Tensor c = at::mm(a, b);
  checked.error = device::product_error(a, b, c);
  if (!(*checked.error <= product.tolerance)) {
    checked.failure = fmt::format(
        "the product differs from the CPU's by {:.2g}; at most {} is "
        "expected",
        *checked.error, product.tolerance);
  } else if (!at::equal(c, at::mm(a, b))) {
    checked.failure = "two products of the same matrices differ";
  }
  const auto size = static_cast<double>(n);
  checked.value = 2 * size * size * size / seconds_of([&] { return at::mm(a, b); }) / kTera;
  checked.unit = "TFLOP/s";
}

enum class Route { pageable, pinned, back, within };

/// Copies numbers over the route and compares them.
void check_copy(const TestedDevice& subject, Route route, GpuChecked& checked) {
  const at::Tensor numbers =
      at::arange(subject.copied / static_cast<std::int64_t>(sizeof(std::int64_t)), at::kLong);
  const bool pins = subject.device.is_cuda() && route != Route::pageable;
  const at::Tensor host = pins ? numbers.pin_memory() : numbers;
  const at::Tensor on_device = at::empty(numbers.sizes(), subject.of(at::kLong));
  at::Tensor from = host;
  at::Tensor to = on_device;
  if (route == Route::back || route == Route::within) {
    from = on_device.copy_(host);
    to = route == Route::within ? at::zeros_like(on_device) : at::zeros_like(host);
    if (route == Route::back && pins) to = to.pin_memory();
  }
  const double seconds = seconds_of([&] {
    to.copy_(from, /*non_blocking=*/route != Route::pageable);
    return on_device;  // the copy is on its stream
  });
  if (!at::equal(to.cpu(), numbers)) checked.failure = "the copy differs from the original";
  checked.value = static_cast<double>(subject.copied) / seconds / kGiga;
  checked.unit = "GB/s";
}

/// Returns why trainctl's kernel for cross entropy does not compute what libtorch does.
std::string entropy_failure(const TestedDevice& subject) {
  constexpr std::int64_t kRows = 64;
  constexpr std::int64_t kClasses = 1000;
  const at::Tensor logits = at::randn({kRows, kClasses}, subject.of(at::kFloat));
  const at::Tensor targets = at::randint(kClasses, {kRows}, subject.of(at::kLong));
  const at::Tensor losses = at::empty({kRows}, subject.of(at::kFloat));
  const at::Tensor gradients = at::empty_like(logits);
  device::RowEntropy job;
  job.logits = logits.const_data_ptr<float>();
  job.targets = targets.const_data_ptr<std::int64_t>();
  job.stride = kClasses;
  job.rows = kRows;
  job.classes = kClasses;
  job.losses = losses.mutable_data_ptr<float>();
  job.gradients = gradients.mutable_data_ptr<float>();
  if (subject.device.is_cpu()) {
    device::row_entropy_on_host(job);
  } else if (const char* failure =
                 device::launch_row_entropy(job, device::current_stream(subject.device))) {
    return failure;
  }
  const at::Tensor expected =
      at::cross_entropy_loss(logits, targets, /*weight=*/{}, at::Reduction::None);
  const at::Tensor slope = at::softmax(logits, 1).scatter_add(
      1, targets.view({-1, 1}), at::full({kRows, 1}, -1.0F, subject.of(at::kFloat)));
  const bool same =
      at::allclose(losses, expected, 1e-5, 1e-5) && at::allclose(gradients, slope, 1e-4, 1e-6);
  return same ? "" : "the cross entropies differ from those of libtorch";
}

/// Returns why trainctl's kernel for batches of images does not compute what libtorch does.
std::string gather_failure(const TestedDevice& subject) {
  device::Gather job;
  job.rows = 8;
  job.height = job.width = job.source_width = 32;
  job.channels = 3;
  job.image_bytes = std::int64_t{job.height} * job.width * job.channels;
  const at::Tensor images =
      at::randint(256, {job.rows, job.height, job.width, job.channels}, subject.of(at::kByte));
  const at::Tensor values = at::rand({job.channels, data::kPixelCodes}, subject.of(at::kFloat));
  const at::Tensor batch =
      at::empty({job.rows, job.channels, job.height, job.width}, subject.of(at::kFloat));
  job.images = images.const_data_ptr<std::uint8_t>();
  job.values = values.const_data_ptr<float>();
  if (subject.device.is_cpu()) {
    device::gather_on_host(job, batch.mutable_data_ptr<float>());
  } else if (const char* failure = device::launch_gather(job, batch.mutable_data_ptr<float>(),
                                                         device::current_stream(subject.device))) {
    return failure;
  }
  for (std::int64_t channel = 0; channel < job.channels; ++channel) {
    const at::Tensor bytes = images.select(3, channel);
    const at::Tensor expected =
        values.select(0, channel).index_select(0, bytes.reshape(-1).to(at::kLong));
    if (!at::equal(batch.select(1, channel), expected.view(bytes.sizes())))
      return "the batch of images differs from that of libtorch";
  }
  return {};
}

void check_kernels(const TestedDevice& subject, GpuChecked& checked) {
  if (subject.device.is_cuda()) {
    if (!device::kernels_built()) checked.found = "not built";
    const std::string obstacle = device::kernel_obstacle(subject.device);
    if (!obstacle.empty()) checked.found = "not used: " + obstacle;
    if (!checked.found.empty()) return;
  }
  checked.failure = entropy_failure(subject);
  if (checked.failure.empty()) checked.failure = gather_failure(subject);
  checked.found = "their results are those of libtorch";
}

void check_graph(const TestedDevice& subject, GpuChecked& checked) {
  constexpr int kReplays = 100;
  const auto graph = device::make_step_graph(subject.device);
  if (graph == nullptr) {
    checked.found = "not available on a CPU";
    return;
  }
  const at::Tensor sum = at::zeros({1024}, subject.of(at::kFloat));
  const auto work = [&] { sum.add_(1); };
  graph->warm_up(work);
  const std::size_t number = graph->record(work);
  graph->replay(number);
  sum.zero_();
  wait_for(sum);
  const double begin = steady_clock().now();
  for (int i = 0; i < kReplays; ++i) graph->replay(number);
  wait_for(sum);
  checked.value = (steady_clock().now() - begin) / kReplays * 1e6;
  checked.unit = "us per replay";
  if (!at::equal(sum, at::full_like(sum, kReplays)))
    checked.failure = "the replays of a captured addition give a wrong sum";
}

/// Counts the GPUs with ranks of this run whose memory this rank's GPU can access.
void check_peers(const TestedDevice& subject, int ranks, GpuChecked& checked) {
  std::vector<std::string> without;
  for (int peer = 0; subject.device.is_cuda() && peer < ranks; ++peer) {
    const at::Device other(at::kCUDA, static_cast<c10::DeviceIndex>(peer));
    if (other != subject.device && !device::has_peer_access(subject.device, other))
      without.push_back(std::to_string(peer));
  }
  if (!without.empty()) checked.found = "no access to GPU " + join(without, ", ");
  checked.value = ranks - 1 - static_cast<int>(without.size());
  checked.unit = fmt::format("of {} other GPU{}", ranks - 1, ranks == 2 ? "" : "s");
}

void check_sum(const TestedDevice& subject, dist::Communicator& communicator, GpuChecked& checked) {
  const int ranks = communicator.rank_info().world_size;
  const std::int64_t count = subject.reduced / static_cast<std::int64_t>(sizeof(float));
  const at::Tensor tensor = at::ones({count}, subject.of(at::kFloat));
  communicator.sum(tensor, "sum that tests the link");
  if (!at::equal(tensor, at::full_like(tensor, ranks))) checked.failure = "the sum is wrong";
  tensor.zero_();  // sums of zeros stay zero
  const double seconds = seconds_of([&] {
    communicator.sum(tensor, "sum that measures the link");
    return tensor;
  });
  const double sent = 2.0 * (ranks - 1) / ranks * static_cast<double>(subject.reduced);
  checked.value = sent / seconds / kGiga;
  checked.unit = "GB/s";
}

/// Runs the checks of a rank and reports each.
class Checks {
 public:
  Checks(int rank, std::string pci_bus, const train::EventSink& emit)
      : rank_(rank), pci_bus_(std::move(pci_bus)), emit_(emit) {}

  template <class Check, class... Arguments>
  void run(const char* name, const Check& check, Arguments&&... arguments) {
    GpuChecked checked{.rank = rank_, .check = name, .pci_bus = pci_bus_};
    emit_(checked);
    try {
      check(std::forward<Arguments>(arguments)..., checked);
    } catch (...) {
      checked.failure = as_error(std::current_exception()).what();
    }
    checked.done = true;
    if (!checked.failure.empty() && first_failure_.empty())
      first_failure_ = fmt::format("{}: {}", name, checked.failure);
    emit_(checked);
  }

  [[nodiscard]] const std::string& first_failure() const { return first_failure_; }

 private:
  int rank_;
  std::string pci_bus_;
  const train::EventSink& emit_;
  std::string first_failure_;
};

}  // namespace

int test_gpu(const TrainctlEngineRequest& request, at::Device device,
             const train::EventSink& emit) {
  Checks checks(request.rank, device::gpu_info(device).pci_bus, emit);
  checks.run("device", initialize, device);
  checks.run("nccl", load_nccl);
  const TestedDevice subject = subject_on(device);
  checks.run("memory test", check_memory, subject);
  checks.run("matmul fp32", check_product, subject, Product{});
  if (device.is_cuda())
    checks.run("matmul tf32", check_product, subject, Product{at::kFloat, true, 2e-2});
  checks.run("matmul bf16", check_product, subject, Product{at::kBFloat16, false, 5e-2});
  checks.run("matmul fp16", check_product, subject, Product{at::kHalf, false, 2e-2});
  checks.run("copy pageable", check_copy, subject, Route::pageable);
  checks.run("copy pinned", check_copy, subject, Route::pinned);
  checks.run("copy back", check_copy, subject, Route::back);
  checks.run("copy on gpu", check_copy, subject, Route::within);
  checks.run("gpu kernels", check_kernels, subject);
  checks.run("cuda graph", check_graph, subject);
  if (request.world_size > 1) {
    checks.run("peer access", check_peers, subject, request.world_size);
    // The other ranks must not wait in a sum for a GPU that does not work.
    ENSURE(resource, checks.first_failure().empty(), "GPU {} failed the check {}", request.rank,
           checks.first_failure());
    spec::Distributed options;
    options.timeout_s = kSumTimeoutS;
    const auto communicator = build_communicator(request, options, device, nullptr);
    checks.run("all-reduce", check_sum, subject, *communicator);
    if (checks.first_failure().empty()) communicator->shutdown();
  }
  emit(events::Finished{.stop_reason = "tested"});
  return 0;
}

}  // namespace trainctl::engine
