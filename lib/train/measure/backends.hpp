#pragma once

#include "spec/experiment/experiment.hpp"

#include <ATen/core/Tensor.h>

#include <string>

namespace trainctl::train {

/// The device, as far as the settings of libtorch's backends depend on it.
struct BackendDevice {
  bool on_gpu = false;
  bool has_tf32 =
      false;  // the GPU has TF32 units, and NVIDIA_TF32_OVERRIDE=0 does not disable them
};
BackendDevice backend_device(at::Device device);

/// The settings of libtorch's backends that the precision and the speed of a run depend on, with
/// PyTorch's names, and the reasons for them.
struct BackendSettings {
  /// "ieee", "tf32" or "bf16": the internal precision of float32 matrix products, and of
  /// convolutions on a GPU.
  std::string fp32_precision = "ieee";
  std::string fp32_precision_why;  // "trainer.float32_matmul_precision is high"
  bool benchmark = false;          // cuDNN measures its kernels
  std::string benchmark_why;       // "configured", "deterministic"
};

/// Resolves trainer.float32_matmul_precision and trainer.benchmark. `deterministic: true` computes
/// in IEEE float32 and measures no kernels.
BackendSettings choose_backends(const spec::Trainer& trainer, const BackendDevice& device);

/// Applies the settings and trainer.deterministic to this process.
void apply_backends(const spec::Trainer& trainer, const BackendSettings& settings);

/// Turns off cuDNN's measurements within a scope: for shapes that occur only a few times.
class BenchmarkOff {
 public:
  BenchmarkOff();
  ~BenchmarkOff();
  BenchmarkOff(const BenchmarkOff&) = delete;
  BenchmarkOff& operator=(const BenchmarkOff&) = delete;

 private:
  bool before_;
};

}  // namespace trainctl::train
