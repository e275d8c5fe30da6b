// Measures the fused kernels: time per launch, bytes per second, and their share of the bandwidth
// of a copy on the same device, next to the operators of PyTorch that a kernel replaces. On a CPU
// the equivalent code runs, which only shows that the program works. usage: bench_kernels [--device
// cpu|cuda] [--quick] [--json]

#include "device/kernels.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "device/device.hpp"
#include "stage/forward_context.hpp"
#include "stages/loss/fused_entropy.hpp"
#include "stages/model/blocks/fused_batch_norm.hpp"
#include "stages/model/blocks/fused_blocks.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;

namespace {

struct Settings {
  at::Device device = at::kCPU;
  bool quick = false;
  bool json = false;
};

/// A kernel and what it replaces. The bytes are those that a launch has to move.
struct Row {
  std::string kernel, shape, type;
  std::int64_t bytes = 0;
  double fused_us = 0;
  double torch_us = 0;
};

void wait(at::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

/// Returns the microseconds of a call: the best mean of several series.
double time_of(const Settings& settings, const std::function<void()>& call) {
  const int calls = settings.quick ? 1 : 30;
  double best = 1e30;
  for (int series = 0; series < (settings.quick ? 1 : 5); ++series) {
    call();  // allocates memory and loads the kernel
    wait(settings.device);
    const double start = steady_clock().now();
    for (int i = 0; i < calls; ++i) call();
    wait(settings.device);
    best = std::min(best, (steady_clock().now() - start) / calls * 1e6);
  }
  return best;
}

/// Returns bytes per second of a copy, which reads and writes each byte.
double copy_bandwidth(const Settings& settings) {
  const std::int64_t bytes = settings.quick ? 1 << 20 : 1 << 29;
  const at::Tensor from = at::empty({bytes}, at::TensorOptions(settings.device).dtype(at::kByte));
  const at::Tensor to = at::empty_like(from);
  return 2 * static_cast<double>(bytes) / (time_of(settings, [&] { to.copy_(from); }) * 1e-6);
}

const char* name_of(at::ScalarType type) {
  return type == at::kFloat ? "float32" : type == at::kBFloat16 ? "bfloat16" : "float16";
}

device::Element element_of(at::ScalarType type) {
  return type == at::kFloat ? device::Element::float32 : device::Element::bfloat16;
}

/// Returns a function that runs forward and backward; the gradients are freed.
std::function<void()> backward_of(std::vector<at::Tensor> leaves,
                                  std::function<std::vector<at::Tensor>()> results) {
  return [leaves = std::move(leaves), results = std::move(results)]() mutable {
    const std::vector<at::Tensor> all = results();
    std::vector<at::Tensor> ones;
    for (const at::Tensor& result : all) ones.push_back(at::ones_like(result));
    torch::autograd::grad(all, leaves, ones);
  };
}

enum class Targets { classes, probabilities };

Row entropy_row(const Settings& settings, std::int64_t rows, std::int64_t classes,
                at::ScalarType type, Targets kind) {
  const at::TensorOptions on(settings.device);
  const at::Tensor logits = at::randn({rows, classes}, on).to(type).requires_grad_();
  const bool has_classes = kind == Targets::classes;
  const at::Tensor targets = has_classes ? at::randint(classes, {rows}, on.dtype(at::kLong))
                                         : at::randn({rows, classes}, on).softmax(-1);
  const stages::ClassTargets given = has_classes ? stages::ClassTargets{.classes = targets}
                                                 : stages::ClassTargets{.probabilities = targets};
  device::RowEntropy job;
  job.type = element_of(type);
  job.rows = rows;
  job.classes = classes;
  job.gradients = logits.mutable_data_ptr();
  if (!has_classes) job.probabilities = targets.const_data_ptr<float>();
  Row row{has_classes ? "cross_entropy and gradient" : "the same with probabilities",
          fmt::format("{} x {}", rows, classes), name_of(type), device::traffic(job)};
  const stage::LossGradientScope scope(1);
  row.fused_us = time_of(settings, backward_of({logits}, [=] {
                           return std::vector{stages::fused_entropy(logits, given, {})};
                         }));
  row.torch_us =
      time_of(settings, backward_of({logits}, [=] {
                return std::vector{at::cross_entropy_loss(logits.to(at::kFloat), targets)};
              }));
  return row;
}

Row norm_row(const Settings& settings, std::int64_t rows, std::int64_t width, at::ScalarType type,
             bool backward) {
  const at::TensorOptions on(settings.device);
  const at::Tensor x = at::randn({rows, width}, on).requires_grad_(backward);
  const at::Tensor branch = at::randn({rows, width}, on).to(type).requires_grad_(backward);
  const stages::LayerNorm norm{at::ones({width}, on).requires_grad_(backward),
                               at::zeros({width}, on).requires_grad_(backward), 1e-5};
  float present = 0;
  device::AddNorm forward_job;
  device::AddNormBackward backward_job;
  forward_job.rows = backward_job.rows = rows;
  forward_job.width = backward_job.width = width;
  forward_job.type = backward_job.type = element_of(type);
  forward_job.branch = backward_job.sum_grad = &present;
  if (type != at::kFloat) backward_job.branch = &present;
  Row row{"residual + layer_norm", fmt::format("{} x {}", rows, width), name_of(type),
          device::traffic(forward_job)};
  const auto fused = [=] {
    const auto all = stages::fused_add_norm(norm, {x, branch}, type);
    return std::vector{all.sum, all.normed};
  };
  const auto by_torch = [=] {
    const at::Tensor sum = x + branch;
    return std::vector{sum, norm(sum).to(type)};
  };
  if (!backward) {
    row.fused_us = time_of(settings, [&] { fused(); });
    row.torch_us = time_of(settings, [&] { by_torch(); });
    return row;
  }
  row.kernel += ", both passes";
  row.bytes += device::traffic(backward_job);
  const std::vector<at::Tensor> leaves{x, branch, norm.weight, norm.bias};
  row.fused_us = time_of(settings, backward_of(leaves, fused));
  row.torch_us = time_of(settings, backward_of(leaves, by_torch));
  return row;
}

Row gelu_row(const Settings& settings, std::int64_t rows, std::int64_t width, at::ScalarType type,
             stages::Gelu kind, bool backward) {
  const at::TensorOptions on(settings.device);
  const at::Tensor x = at::randn({rows, width}, on).to(type).requires_grad_(backward);
  const at::Tensor bias = at::randn({width}, on).requires_grad_(backward);
  device::BiasGelu job;
  job.rows = rows;
  job.width = width;
  job.type = element_of(type);
  const bool tanh = kind == stages::Gelu::tanh;
  Row row{fmt::format("bias + gelu ({})", tanh ? "tanh" : "erf"),
          fmt::format("{} x {}", rows, width), name_of(type), device::traffic(job)};
  const auto fused = [=] { return std::vector{stages::fused_bias_gelu(x, bias, kind)}; };
  const auto by_torch = [=] {
    return std::vector{at::gelu(x + bias.to(type), tanh ? "tanh" : "none")};
  };
  if (!backward) {
    row.fused_us = time_of(settings, [&] { fused(); });
    row.torch_us = time_of(settings, [&] { by_torch(); });
    return row;
  }
  row.kernel += ", both passes";
  float present = 0;
  job.gradient = &present;
  row.bytes += device::traffic(job);
  row.fused_us = time_of(settings, backward_of({x, bias}, fused));
  row.torch_us = time_of(settings, backward_of({x, bias}, by_torch));
  return row;
}

struct Images {
  std::int64_t count, channels, size;
};

/// Both passes in training, with the statistics; `adds`: with the shortcut of a residual unit.
Row batch_norm_row(const Settings& settings, const Images& images, at::ScalarType type, bool adds) {
  const at::TensorOptions on(settings.device);
  const auto pixels = [&] {
    return at::randn({images.count, images.channels, images.size, images.size}, on)
        .to(type)
        .contiguous(at::MemoryFormat::ChannelsLast);
  };
  const at::Tensor x = pixels().requires_grad_();
  const at::Tensor residual = adds ? pixels().requires_grad_() : at::Tensor();
  const auto channels = [&](double value) { return at::full({images.channels}, value, on); };
  const stages::BatchNorm2d norm{channels(1).requires_grad_(),
                                 channels(0).requires_grad_(),
                                 channels(0),
                                 channels(1),
                                 at::zeros({}, on.dtype(at::kLong)),
                                 {}};
  float present = 0;
  device::BatchNormReluBackward job;
  job.type = element_of(type);
  job.channels = images.channels;
  job.rows = images.count * images.size * images.size;
  job.x_grad = &present;
  if (adds) job.residual = job.residual_grad = &present;
  const auto& forward = static_cast<const device::BatchNormRelu&>(job);
  device::BatchMoments moments;
  static_cast<device::PixelRows&>(moments) = job;
  Row row{adds ? "batch_norm + add + relu, both passes" : "batch_norm + relu, both passes",
          fmt::format("{}x{}x{}x{}", images.count, images.channels, images.size, images.size),
          name_of(type),
          device::traffic(moments) + device::traffic(forward) + device::traffic(job)};
  std::vector<at::Tensor> leaves{x, norm.weight, norm.bias};
  if (adds) leaves.push_back(residual);
  constexpr auto kTrain = stage::RunMode::train;
  row.fused_us =
      time_of(settings, backward_of(leaves, [=] {
                return std::vector{stages::fused_batch_norm(norm, x, kTrain, {residual})};
              }));
  row.torch_us = time_of(settings, backward_of(leaves, [=] {
                           at::Tensor y = norm(x, kTrain);
                           if (adds) y.add_(residual);
                           return std::vector{at::relu_(y)};
                         }));
  return row;
}

/// All parameters of a model of `tensors` x `numbers` in one launch.
Row average_row(const Settings& settings, std::int64_t tensors, std::int64_t numbers) {
  const at::TensorOptions on(settings.device);
  std::vector<at::Tensor> averages, weights;
  std::vector<device::AverageChunk> chunks;
  for (std::int64_t i = 0; i < tensors; ++i) {
    averages.push_back(at::randn({numbers}, on));
    weights.push_back(at::randn({numbers}, on));
    for (std::int64_t first = 0; first < numbers; first += device::kChunk)
      chunks.push_back({averages.back().mutable_data_ptr<float>() + first,
                        weights.back().const_data_ptr<float>() + first,
                        std::min(device::kChunk, numbers - first)});
  }
  const auto bytes = static_cast<std::int64_t>(chunks.size() * sizeof(chunks[0]));
  const at::Tensor table = at::from_blob(chunks.data(), {bytes}, at::kByte).to(settings.device);
  const device::AverageWeights job{
      reinterpret_cast<const device::AverageChunk*>(table.const_data_ptr()),
      static_cast<std::int64_t>(chunks.size()), 0.001F};
  Row row{"EMA of all weights", fmt::format("{} x {}", tensors, numbers), "float32",
          device::average_traffic(tensors * numbers)};
  row.fused_us = time_of(settings, [&] {
    if (settings.device.is_cpu()) return device::average_weights_on_host(job);
    const char* failure =
        device::launch_average_weights(job, device::current_stream(settings.device));
    ENSURE(resource, failure == nullptr, "cannot average: {}", failure);
  });
  row.torch_us = time_of(settings, [&] { at::_foreach_lerp_(averages, weights, 0.001); });
  return row;
}

/// The shapes of GPT-2 124M with 8 x 1024 tokens, of ViT-B/16 and of ResNet-50.
std::vector<Row> measure(const Settings& settings) {
  const std::int64_t tokens = settings.quick ? 16 : 8192;
  const std::int64_t vocabulary = settings.quick ? 501 : 50257;
  const std::int64_t width = settings.quick ? 32 : 768;
  std::vector<Row> rows;
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const std::int64_t images = settings.quick ? 2 : 128;
    rows.push_back(entropy_row(settings, tokens, vocabulary, type, Targets::classes));
    for (const Targets kind : {Targets::classes, Targets::probabilities})
      rows.push_back(entropy_row(settings, 2 * images, settings.quick ? 10 : 1000, type, kind));
    for (const bool backward : {false, true}) {
      rows.push_back(norm_row(settings, tokens, width, type, backward));
      for (const stages::Gelu kind : {stages::Gelu::tanh, stages::Gelu::erf})
        rows.push_back(gelu_row(settings, tokens, 4 * width, type, kind, backward));
    }
    for (const auto& [channels, size] : {std::pair{64, 56}, {256, 56}, {1024, 14}, {2048, 7}}) {
      for (const bool adds : {false, true})
        rows.push_back(batch_norm_row(settings, {images, channels, size}, type, adds));
    }
  }
  rows.push_back(average_row(settings, 148, settings.quick ? 100 : 840'000));
  return rows;
}

void print(const Settings& settings, const std::vector<Row>& rows, double peak) {
  if (!settings.json)
    fmt::print("{:<37} {:<14} {:<9} {:>10} {:>10} {:>8} {:>6}\n", "kernel", "shape", "type",
               "fused us", "torch us", "GB/s", "copy");
  for (const Row& row : rows) {
    const double rate = static_cast<double>(row.bytes) / (row.fused_us * 1e-6);
    if (settings.json) {
      const Json line{{"kernel", row.kernel},
                      {"shape", row.shape},
                      {"type", row.type},
                      {"bytes", row.bytes},
                      {"fused_us", row.fused_us},
                      {"torch_us", row.torch_us},
                      {"gb_per_s", rate * 1e-9},
                      {"share_of_copy", rate / peak},
                      {"copy_gb_per_s", peak * 1e-9},
                      {"device", settings.device.str()}};
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("{:<37} {:<14} {:<9} {:>10.1f} {:>10.1f} {:>8.1f} {:>5.0f}%\n", row.kernel,
                 row.shape, row.type, row.fused_us, row.torch_us, rate * 1e-9, rate / peak * 100);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--quick") {
      settings.quick = true;
    } else if (word == "--json") {
      settings.json = true;
    } else if (word == "--device" && i + 1 < count) {
      settings.device = at::Device(words[++i]);
    } else {
      fmt::print(stderr, "usage: bench_kernels [--device cpu|cuda] [--quick] [--json]\n");
      return 2;
    }
  }
  if (settings.device.is_cuda()) {
    if (device::cuda_devices() == 0 || !device::kernels_built()) {
      fmt::print(stderr, "bench_kernels: there is no GPU, or this build has no kernels\n");
      return 11;
    }
    settings.device = at::Device(at::kCUDA, 0);
    device::use_cuda_device(settings.device);
  }
  print(settings, measure(settings), copy_bandwidth(settings));
  return 0;
}
