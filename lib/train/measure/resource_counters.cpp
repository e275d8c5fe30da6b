#include "train/measure/resource_counters.hpp"

#include "base/error.hpp"

#include <ATen/core/ivalue.h>
#include <c10/core/Allocator.h>

#include <algorithm>
#include <array>
#include <mutex>

// The formulas follow torch/utils/flop_counter.py of PyTorch 2.11.

namespace trainctl::train {
namespace {

using Inputs = c10::ArrayRef<const at::IValue>;

bool is_tensor(Inputs inputs, std::size_t index, std::int64_t dimensions) {
  if (index >= inputs.size() || !inputs[index].isTensor()) return false;
  const at::Tensor& tensor = inputs[index].toTensor();
  return tensor.defined() && tensor.dim() == dimensions;
}

/// The inputs `first` and `first + 1` are [m, k] and [k, n], optionally with a batch dimension.
template <std::size_t first, std::int64_t dimensions>
std::int64_t product(Inputs inputs) {
  if (!is_tensor(inputs, first, dimensions) || !is_tensor(inputs, first + 1, dimensions)) return 0;
  return 2 * inputs[first].toTensor().numel() * inputs[first + 1].toTensor().size(-1);
}

/// The list has one value for all dimensions, or one for each.
std::int64_t extent_of(const std::vector<std::int64_t>& values, std::size_t dimension) {
  return values.size() == 1 ? values[0] : values.at(dimension);
}

/// Returns the spatial size that a convolution applies a whole filter to: that of the output, or of
/// the input if the convolution is transposed.
std::vector<std::int64_t> extents(Inputs inputs) {
  const at::IntArrayRef x = inputs[0].toTensor().sizes();
  const at::IntArrayRef filter = inputs[1].toTensor().sizes();
  const bool transposed = inputs[6].toBool();
  const std::vector<std::int64_t> stride = inputs[3].toIntVector();
  const std::vector<std::int64_t> padding = inputs[4].toIntVector();
  const std::vector<std::int64_t> dilation = inputs[5].toIntVector();
  std::vector<std::int64_t> found;
  for (std::size_t i = 2; i < x.size(); ++i) {
    const std::int64_t reach = extent_of(dilation, i - 2) * (filter[i] - 1) + 1;
    const std::int64_t room = x[i] + 2 * extent_of(padding, i - 2) - reach;
    found.push_back(transposed ? x[i] : room / extent_of(stride, i - 2) + 1);
  }
  return found;
}

bool has_extents(Inputs inputs) {
  if (inputs.size() < 7 || !inputs[0].isTensor() || !inputs[1].isTensor()) return false;
  const at::Tensor& x = inputs[0].toTensor();
  return x.dim() >= 3 && inputs[1].toTensor().dim() == x.dim();
}

/// Arguments: input, weight [out, in per group, ...], bias, stride, padding, dilation, transposed,
/// ...
std::int64_t convolution(Inputs inputs) {
  if (!has_extents(inputs)) return 0;
  std::int64_t places = inputs[0].toTensor().size(0);
  for (const std::int64_t extent : extents(inputs)) places *= extent;
  return 2 * places * inputs[1].toTensor().numel();
}

/// Arguments: grad_output, input, weight, bias sizes, stride, padding, dilation, transposed, output
/// padding, groups, mask of {input, weight, bias}. The gradients of input and weight each cost as
/// much as the forward pass.
std::int64_t convolution_backward(Inputs inputs) {
  if (inputs.size() < 11 || !inputs[0].isTensor() || !inputs[1].isTensor() ||
      !inputs[2].isTensor() || !inputs[10].isBoolList())
    return 0;
  const at::Tensor& grad = inputs[0].toTensor();
  const at::Tensor& x = inputs[1].toTensor();
  const at::Tensor& weight = inputs[2].toTensor();
  if (x.dim() < 3 || grad.dim() != x.dim() || weight.dim() != x.dim()) return 0;
  const at::Tensor& written = inputs[7].toBool() ? x : grad;
  std::int64_t count = written.size(0);
  for (std::int64_t i = 2; i < written.dim(); ++i) count *= written.size(i);
  const c10::List<bool> mask = inputs[10].toBoolList();
  const std::int64_t wanted = (mask.get(0) ? 1 : 0) + (mask.get(1) ? 1 : 0);
  return wanted * 2 * count * weight.numel();
}

/// The inputs from `first` on are query [b, h, q, d], key [b, h, k, d] and value [b, h, k, v].
/// Counts `by_key` products of [q, d] and [d, k], and `by_value` products of [q, k] and [k, v].
template <std::size_t first, std::int64_t by_key, std::int64_t by_value>
std::int64_t attention(Inputs inputs) {
  for (std::size_t i = first; i < first + 3; ++i) {
    if (!is_tensor(inputs, i, 4)) return 0;
  }
  const at::IntArrayRef query = inputs[first].toTensor().sizes();
  const std::int64_t keys = inputs[first + 1].toTensor().size(2);
  const std::int64_t width = inputs[first + 2].toTensor().size(3);
  return 2 * query[0] * query[1] * query[2] * keys * (by_key * query[3] + by_value * width);
}

constexpr auto kAttention = attention<0, 1, 1>;
constexpr auto kAttentionBackward = attention<1, 3, 2>;  // recomputes the scores

/// The inputs are x [t, n, e] or [n, t, e], then the list of weights, or the first two of the
/// weights, of which the matrices multiply every step of every sequence. Counts `times` each.
template <std::int64_t times>
std::int64_t recurrent(Inputs inputs) {
  if (inputs.size() < 3 || !is_tensor(inputs, 0, 3)) return 0;
  const at::Tensor& x = inputs[0].toTensor();
  std::vector<at::Tensor> weights;
  if (inputs[1].isTensorList()) {
    weights = inputs[1].toTensorVector();
  } else if (is_tensor(inputs, 1, 2) && is_tensor(inputs, 2, 2)) {
    weights = {inputs[1].toTensor(), inputs[2].toTensor()};
  }
  std::int64_t products = 0;
  for (const at::Tensor& weight : weights) products += weight.dim() == 2 ? weight.numel() : 0;
  return times * 2 * x.size(0) * x.size(1) * products;
}

struct Formula {
  std::string_view name;
  std::int64_t (*flops)(Inputs);
};

// Operators that these call are not counted again: some devices decompose the fused ones.
constexpr std::array kFormulas{
    Formula{"aten::mm", product<0, 2>},
    Formula{"aten::addmm", product<1, 2>},
    Formula{"aten::_addmm_activation", product<1, 2>},
    Formula{"aten::bmm", product<0, 3>},
    Formula{"aten::baddbmm", product<1, 3>},
    Formula{"aten::convolution", convolution},
    Formula{"aten::convolution_backward", convolution_backward},
    Formula{"aten::mkldnn_rnn_layer", recurrent<1>},
    Formula{"aten::mkldnn_rnn_layer_backward", recurrent<2>},
    Formula{"aten::_cudnn_rnn", recurrent<1>},
    Formula{"aten::_cudnn_rnn_backward", recurrent<2>},
    Formula{"aten::_scaled_dot_product_flash_attention_for_cpu", kAttention},
    Formula{"aten::_scaled_dot_product_flash_attention_for_cpu_backward", kAttentionBackward},
    Formula{"aten::_scaled_dot_product_flash_attention", kAttention},
    Formula{"aten::_scaled_dot_product_flash_attention_backward", kAttentionBackward},
    Formula{"aten::_scaled_dot_product_efficient_attention", kAttention},
    Formula{"aten::_scaled_dot_product_efficient_attention_backward", kAttentionBackward},
    Formula{"aten::_scaled_dot_product_cudnn_attention", kAttention},
    Formula{"aten::_scaled_dot_product_cudnn_attention_backward", kAttentionBackward},
};

struct Counted final : at::ObserverContext {};

/// The active counter. Callbacks are plain functions, and backward passes run on other threads.
std::atomic<FlopCounter*> current{nullptr};
thread_local int inside = 0;  // depth of calls that are counted

}  // namespace

std::int64_t flops_of(std::string_view name, Inputs inputs) {
  for (const Formula& formula : kFormulas) {
    if (formula.name == name) return formula.flops(inputs);
  }
  return 0;
}

bool is_image_convolution(std::string_view name, Inputs inputs) {
  constexpr std::int64_t kLeast = 4;
  if (name != "aten::convolution" || !has_extents(inputs)) return false;
  const std::vector<std::int64_t> found = extents(inputs);
  return found.size() == 2 && std::ranges::min(found) >= kLeast;
}

FlopCounter::FlopCounter() {
  FlopCounter* none = nullptr;
  ASSERT(current.compare_exchange_strong(none, this));
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_start, &on_end)
                                           .needsInputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() {
  at::removeCallback(handle_);
  current = nullptr;
}

std::unique_ptr<at::ObserverContext> FlopCounter::on_start(const at::RecordFunction& call) {
  FlopCounter* const counter = current;
  if (counter == nullptr || inside > 0) return nullptr;
  const std::int64_t flops = flops_of(call.name(), call.inputs());
  if (flops == 0) return nullptr;
  counter->count_ += flops;
  if (is_image_convolution(call.name(), call.inputs())) counter->image_convolutions_ += flops;
  ++inside;
  return std::make_unique<Counted>();
}

void FlopCounter::on_end(const at::RecordFunction& /*call*/, at::ObserverContext* context) {
  if (context != nullptr) --inside;
}

/// Other threads call it, too: at most one backward pass and the operators' thread pools.
class MemoryMeter::Report final : public c10::MemoryReportingInfoBase {
 public:
  explicit Report(at::Device device) : device_(device) {}

  void reportMemoryUsage(void* /*memory*/, std::int64_t bytes, std::size_t /*total*/,
                         std::size_t reserved, c10::Device device) override {
    if (device.type() != device_.type()) return;
    const std::lock_guard lock(mutex_);
    live_ += bytes;  // negative for a deallocation
    peak_ = std::max(peak_, live_);
    reserved_ = std::max(reserved_, static_cast<std::int64_t>(reserved));
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  [[nodiscard]] std::int64_t live() const { return read(live_); }
  [[nodiscard]] std::int64_t peak() const { return read(peak_); }
  [[nodiscard]] std::int64_t reserved() const { return read(reserved_); }
  void restart_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = live_;
  }

 private:
  [[nodiscard]] std::int64_t read(const std::int64_t& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  at::Device device_;
  mutable std::mutex mutex_;
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t reserved_ = 0;
};

MemoryMeter::MemoryMeter(at::Device device)
    : report_(std::make_shared<Report>(device)),
      guard_(std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, report_)) {}

MemoryMeter::~MemoryMeter() = default;

std::int64_t MemoryMeter::live() const { return report_->live(); }
std::int64_t MemoryMeter::peak() const { return report_->peak(); }
std::int64_t MemoryMeter::reserved() const { return report_->reserved(); }
void MemoryMeter::restart_peak() { report_->restart_peak(); }

}  // namespace trainctl::train
