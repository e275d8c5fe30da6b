#include "train/debug/step_repeat.hpp"

#include "base/strings.hpp"
#include "device/host_read.hpp"
#include "train/debug/anomaly_detector.hpp"
#include "train/debug/tensor_stats.hpp"
#include "train/state/weights.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>

namespace trainctl::train {
namespace {

constexpr std::size_t kMostSummaries = 200;
constexpr std::int64_t kMostRows = 4096;
constexpr const char* kPlace = "repeated step";  // of the host waits

std::string name_of(const LayerPlace& place) {
  if (place.pass == LayerPass::loss) return fmt::format("the loss ({})", place.op);
  if (place.layer.empty()) return fmt::format("before the first layer ({})", place.op);
  return fmt::format("{}{} ({})", place.owns ? "" : "after ", place.layer, place.op);
}

/// Returns whether `output` only views an input. The result of an in-place operator is no view
/// here, since its values are new.
bool is_view(const at::Tensor& output, const LayerCall& call, std::string_view op) {
  if (op.ends_with('_')) return false;
  return std::ranges::any_of(call.inputs, [&](const at::Tensor& input) {
    return input.has_storage() && output.has_storage() && input.is_alias_of(output);
  });
}

/// Summarizes the outputs of the operators of a forward pass in their order, attributed to layers
/// by LayerTrace. Synchronizes with the device after each operator.
class LayerNumbers final : public LayerTrace {
 public:
  using LayerTrace::LayerTrace;

  /// Returns at most kMostSummaries summaries.
  [[nodiscard]] const std::vector<events::TensorSummary>& layers() const { return layers_; }

 private:
  void operator_ends(const LayerFrame& frame, const at::RecordFunction& op,
                     const LayerCall& call) override {
    const bool forward = pass() == LayerPass::forward || pass() == LayerPass::loss;
    if (!forward || !call.outermost || call.inputs.empty()) return;
    for (const at::Tensor& output : tensors_in(op.outputs())) {
      const bool wanted = output.is_floating_point() && !is_view(output, call, op.name());
      if (wanted && layers_.size() < kMostSummaries)
        layers_.push_back(summary_of(name_of(frame.place), output));
    }
  }

  std::vector<events::TensorSummary> layers_;
};

/// Restores buffers and gradients at its end, because the forward pass updates running statistics.
class LeftAsItWas {
 public:
  explicit LeftAsItWas(const stage::Model& model)
      : parameters_(model.parameters()), buffers_(model.buffers()) {
    buffers_.take();
    for (const auto& [name, parameter] : parameters_) {
      gradients_.push_back(parameter.grad());
      parameter.mutable_grad().reset();
    }
  }
  ~LeftAsItWas() {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].tensor.mutable_grad() = gradients_[i];
    buffers_.restore();
  }
  LeftAsItWas(const LeftAsItWas&) = delete;
  LeftAsItWas& operator=(const LeftAsItWas&) = delete;

 private:
  std::vector<stage::NamedTensor> parameters_;
  std::vector<at::Tensor> gradients_;
  Snapshot buffers_;
};

/// Returns the loss of one row; 0 if its weight is 0.
float row_loss(stage::Loss& loss, const at::Tensor& logits, const device::DeviceBatch& batch,
               std::int64_t row) {
  const auto of_row = [row](const at::Tensor& all) { return all.narrow(0, row, 1); };
  const stage::LossValue value = loss_of(loss, of_row(logits), device::with_tensors(batch, of_row));
  if (value.weight.defined() && device::value_of<float>(value.weight, kPlace) == 0) return 0;
  return device::value_of<float>(value.mean(), kPlace);
}

/// Returns the loss of each row; undefined if there are too many rows, or if the loss does not
/// accept a single row.
at::Tensor row_losses(stage::Loss& loss, const at::Tensor& logits,
                      const device::DeviceBatch& batch) {
  const std::int64_t rows = std::min(batch.valid, logits.size(0));
  if (rows == 0 || rows > kMostRows) return {};
  const at::NoGradGuard guard;
  const at::Tensor losses = at::empty({rows}, at::kFloat);
  auto* values = losses.mutable_data_ptr<float>();
  try {
    for (std::int64_t row = 0; row < rows; ++row) values[row] = row_loss(loss, logits, batch, row);
  } catch (const std::exception&) {
    return {};
  }
  return losses;
}

std::vector<stage::NamedTensor> take_gradients(const stage::Model& model, double scale) {
  const at::NoGradGuard guard;
  std::vector<stage::NamedTensor> gradients;
  for (const auto& [name, parameter] : model.parameters()) {
    if (!parameter.grad().defined()) continue;
    const at::Tensor gradient = parameter.grad().detach();
    gradients.push_back({name, scale == 1 ? gradient : gradient / scale});
  }
  return gradients;
}

/// Lends the task the model, and reports the passes.
class WatchedTools final : public PlainTools {
 public:
  WatchedTools(const StepParts& parts, const ForwardOptions& options,
               std::function<void(LayerPass)> enter)
      : PlainTools(parts.model, parts.loss, options),
        samples_(parts.samples),
        enter_(std::move(enter)) {}
  at::Tensor forward(const at::Tensor& inputs) override {
    enter_(LayerPass::forward);
    at::Tensor outputs = PlainTools::forward(inputs);
    enter_(LayerPass::loss);
    return outputs;
  }
  stage::BatchSamples samples(const device::DeviceBatch& batch) override {
    stage::BatchSamples samples = samples_;
    samples.indices.resize(static_cast<std::size_t>(batch.inputs.size(0)));
    return samples;
  }

 private:
  const stage::BatchSamples& samples_;
  std::function<void(LayerPass)> enter_;
};

RepeatedStep repeat_here(const StepParts& parts, const device::DeviceBatch& batch,
                         const RepeatOptions& options) {
  const c10::OptionalDeviceGuard device(batch.inputs.device());
  const LeftAsItWas guard(parts.model);
  RepeatedStep step;
  AnomalyDetector watch(parts.model);
  const auto numbers = std::make_shared<LayerNumbers>(parts.model);
  const LayerScope scope(numbers, LayerUse::measurement);
  const auto enter = [&](LayerPass pass) {
    watch.enter(pass);
    numbers->enter(pass);
  };
  WatchedTools tools(parts, options.forward, enter);
  const stage::TaskResult result = parts.task.step(batch, tools);
  const at::Tensor mean = result.loss.mean();
  const at::Tensor scaled = options.loss_scale == 1 ? mean : mean * options.loss_scale;
  enter(LayerPass::backward);
  scaled.backward();
  enter(LayerPass::none);
  step.outputs = result.outputs.detach();
  step.loss = mean.detach();
  step.gradients = take_gradients(parts.model, options.loss_scale);
  step.row_losses = row_losses(parts.loss, step.outputs, result.batch);
  step.layers = numbers->layers();
  step.first = watch.found();
  return step;
}

}  // namespace

bool RepeatedStep::is_finite() const {
  return all_finite(loss) && std::ranges::all_of(gradients, [](const stage::NamedTensor& gradient) {
           return all_finite(gradient.tensor);
         });
}

/// Runs on a separate thread because each thread can have only one callback of each kind, and this
/// thread's may be in use.
RepeatedStep repeat_step(const StepParts& parts, const device::DeviceBatch& batch,
                         const RepeatOptions& options) {
  RepeatedStep step;
  std::exception_ptr failure;
  std::thread apart([&] {
    try {
      at::init_num_threads();
      step = repeat_here(parts, batch, options);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  apart.join();
  if (failure) std::rethrow_exception(failure);
  return step;
}

StepDigests digests_of(const RepeatedStep& step) {
  return {exact_text(device::value_of<double>(step.loss, kPlace)),
          digest_weights({{"outputs", step.outputs}}), digest_weights(step.gradients)};
}

std::vector<events::TensorSummary> summaries_of(const stage::Model& model,
                                                const device::DeviceBatch& batch,
                                                const RepeatedStep& step) {
  std::vector<events::TensorSummary> all;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined()) all.push_back(summary_of(name, tensor));
  };
  add("inputs", batch.inputs);
  add("outputs", step.outputs);
  add("loss", step.loss);
  for (const auto& [name, tensor] : weights_of(model)) add(name, tensor);
  for (const auto& [name, tensor] : step.gradients) add("gradient of " + name, tensor);
  return offending_first(std::move(all), kMostSummaries);
}

}  // namespace trainctl::train
