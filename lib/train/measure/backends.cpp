#include "train/measure/backends.hpp"

#include "device/device.hpp"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

namespace trainctl::train {
namespace {

using spec::MatmulPrecision;

constexpr int kFirstTf32 = 80;  // compute capability 8.0

const char* name_of(MatmulPrecision precision) {
  return enum_names(precision).at(static_cast<std::size_t>(precision));
}

/// Returns the precision that the experiment allows on any device.
MatmulPrecision allowed(const spec::Trainer& trainer) {
  return trainer.deterministic ? MatmulPrecision::highest : trainer.float32_matmul_precision;
}

void choose_precision(const spec::Trainer& trainer, const BackendDevice& device,
                      BackendSettings& settings) {
  const MatmulPrecision precision = allowed(trainer);
  settings.fp32_precision_why =
      trainer.deterministic
          ? "deterministic"
          : fmt::format("trainer.float32_matmul_precision is {}", name_of(precision));
  if (precision == MatmulPrecision::highest) return;
  if (device.on_gpu && !device.has_tf32) {
    settings.fp32_precision_why += ", but the GPU does not use TF32";
    return;
  }
  const bool bf16 = !device.on_gpu && precision == MatmulPrecision::medium;
  settings.fp32_precision = bf16 ? "bf16" : "tf32";
  if (!device.on_gpu)
    settings.fp32_precision_why += ", and oneDNN uses it if the CPU has such instructions";
}

/// The loader gives all batches but the last one of an epoch the same shape, so a kernel is
/// measured once and used in many steps.
void choose_benchmark(const spec::Trainer& trainer, const BackendDevice& device,
                      BackendSettings& settings) {
  if (!device.on_gpu) {
    settings.benchmark_why = "training runs on the CPU";
  } else if (!trainer.benchmark.is_auto()) {
    settings.benchmark = *trainer.benchmark.value;
    settings.benchmark_why = "configured";
  } else {
    settings.benchmark = !trainer.deterministic;
    settings.benchmark_why = trainer.deterministic ? "deterministic" : "the default on a GPU";
  }
}

}  // namespace

BackendDevice backend_device(at::Device device) {
  const char* override = std::getenv("NVIDIA_TF32_OVERRIDE");
  const bool disabled = override != nullptr && std::string_view(override) == "0";
  return {.on_gpu = device.is_cuda(),
          .has_tf32 = !disabled && device::gpu_info(device).architecture >= kFirstTf32};
}

BackendSettings choose_backends(const spec::Trainer& trainer, const BackendDevice& device) {
  BackendSettings settings;
  choose_precision(trainer, device, settings);
  choose_benchmark(trainer, device, settings);
  return settings;
}

void apply_backends(const spec::Trainer& trainer, const BackendSettings& settings) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(trainer.deterministic, /*warn_only=*/false);
  context.setDeterministicCuDNN(trainer.deterministic);
  context.setBenchmarkCuDNN(settings.benchmark);
  // libtorch also keeps an older flag of each backend, and throws if it disagrees with the new one.
  const MatmulPrecision precision = allowed(trainer);
  const bool exact = precision == MatmulPrecision::highest;
  context.setFloat32MatmulPrecision(name_of(precision));
  context.setAllowTF32CuDNN(!exact);
  for (const at::Float32Op op : {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN})
    context.setFloat32Precision(at::Float32Backend::CUDA, op,
                                exact ? at::Float32Precision::IEEE : at::Float32Precision::TF32);
}

BenchmarkOff::BenchmarkOff() : before_(at::globalContext().benchmarkCuDNN()) {
  at::globalContext().setBenchmarkCuDNN(false);
}

BenchmarkOff::~BenchmarkOff() { at::globalContext().setBenchmarkCuDNN(before_); }

}  // namespace trainctl::train
