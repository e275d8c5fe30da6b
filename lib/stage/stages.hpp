#pragma once

#include "base/state_archive.hpp"
#include "spec/layer_shapes.hpp"
#include "spec/sample.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// The interfaces that the trainer uses. A stage gets its own options and a typed context, never the
// whole experiment.

namespace trainctl::stage {

struct NamedTensor {
  std::string name;  // torchvision's parameter name for torchvision's models: "fc1.weight"
  at::Tensor tensor;
};

enum class RunMode { train, evaluate };

/// The properties of the data that a model is built for: the shape of one sample without the batch
/// dimension, (C, H, W) for images, and the number of outputs, which is the number of classes or of
/// regression targets.
struct ModelContext {
  std::vector<std::int64_t> input_shape;
  std::int64_t outputs = 0;
  spec::SampleKind kind = {};
  std::vector<std::int64_t> output_shape = {};  // (C, H, W) of images that it makes; else empty
};

/// A network. Its parameter tensors are the same objects for the whole run, because the optimizer
/// and the gradient reducer hold references to them.
class Model {
 public:
  virtual ~Model() = default;
  /// Returns logits [N, outputs], or [N, T, outputs] for token targets and [N, outputs, H, W] for
  /// pixels. `inputs` is float32 [N, C, H, W] for images, float32 [N, ...] for rows and int64
  /// [N, T] for tokens.
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
  /// Returns all parameters in a fixed order.
  [[nodiscard]] virtual std::vector<NamedTensor> parameters() const = 0;
  [[nodiscard]] virtual std::vector<NamedTensor> buffers() const = 0;
  virtual void set_mode(RunMode mode) = 0;
  virtual void to(at::Device device) = 0;
  /// Returns whether the model consists of blocks whose activations can be recomputed.
  [[nodiscard]] virtual bool has_blocks() const { return false; }
  /// Turns on activation checkpointing: training keeps only the input of each block and recomputes
  /// the rest in the backward pass. Returns false if the model has no blocks.
  virtual bool checkpoint_activations() { return false; }
};

/// The tokens that a sequential model reads in the current forward pass, from which its layers can
/// compute which positions are padding.
struct PaddedTokens {
  at::Tensor inputs;  // int64 [N, T]
  std::int64_t padding_id = 0;
};

/// The input shape and the number of outputs that a layer of a sequential model is built for.
/// Layers are small models, and the shape of their output is the input shape of the next layer.
struct LayerContext {
  spec::layer::LayerInput input;
  /// Whether a batch_norm2d layer, or a conv2d that trains for int8, also computes the relu after
  /// it.
  bool relu_follows = false;
  std::shared_ptr<const PaddedTokens> tokens = {};  // null: the samples have no padding
  bool trains_for_int8 = false;                     // whether layers round weights and activations
  Model* convolution = nullptr;  // the conv2d that a batch_norm2d layer computes, too, for int8
  bool rounds_input = false;     // whether a conv2d rounds its input for int8
};

struct LossContext {
  std::int64_t outputs = 0;  // of the model: the number of classes or of regression targets
  at::Device device = at::kCPU;
  spec::Targets targets = spec::Targets::classes;
};

/// A mean that can be combined exactly over batches and ranks. Both tensors are 0-d float32 on the
/// loss's device.
struct LossValue {
  at::Tensor value;  // the mean over the rows, or the sum of weight * loss if the rows have weights
  at::Tensor weight;  // the sum of the weights, without gradient; undefined: every row has weight 1

  [[nodiscard]] at::Tensor mean() const { return weight.defined() ? value.div(weight) : value; }
};

/// The targets of rows that mixup or cutmix has mixed with partner rows.
struct MixedTargets {
  at::Tensor own;      // int64 [N]: class of the row
  at::Tensor partner;  // int64 [N]: class of the partner row
  at::Tensor lambda;   // float32 [N]: share of the row's class
};

/// A loss function. It is built for one device.
class Loss {
 public:
  virtual ~Loss() = default;
  /// Computes the loss. `logits` is float [N, outputs] and `targets` is int64 [N] for classes or
  /// float32 [N, outputs] for regression. For tokens `logits` is [N, T, outputs] and `targets`
  /// int64 [N, T], for pixels [N, outputs, H, W] and int64 [N, H, W].
  virtual LossValue forward(const at::Tensor& logits, const at::Tensor& targets) = 0;
  /// Computes lambda * loss(own) + (1 - lambda) * loss(partner) for each row. Throws Error(config)
  /// if the loss does not support mixed targets.
  virtual LossValue forward_mixed(const at::Tensor& logits, const MixedTargets& targets);
  /// Returns whether the logits may be bfloat16 or float16: the loss then computes in float32.
  [[nodiscard]] virtual bool accepts_16_bit() const { return false; }
  /// Returns the label that is excluded from the loss, like ignore_index in PyTorch; nullopt if
  /// every label is a class.
  [[nodiscard]] virtual std::optional<std::int64_t> ignored_label() const { return std::nullopt; }
};

struct OptimizerContext {
  std::vector<NamedTensor> parameters;  // trainable ones, on their device
  /// Whether this optimizer updates each parameter; empty: it updates all. Other ranks update the
  /// rest, and no state is kept for them here; rules for learning rate and weight decay still see
  /// all parameters.
  std::vector<bool> owned = {};
};

/// Updates the parameters of its context from their gradients.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Updates the parameters from their gradients; parameters with undefined gradients are skipped.
  virtual void step() = 0;
  /// Like `step`, but leaves parameters and state unchanged if `found_inf` (float32 [1] on the
  /// parameters' device) is nonzero. Synchronizes with the device unless skips_on_device().
  virtual void step_unless(const at::Tensor& found_inf) {
    if (found_inf.item<float>() == 0) step();  // StepRunner counts the host wait
  }
  /// Returns whether `step_unless` works without synchronizing with the device.
  [[nodiscard]] virtual bool skips_on_device() const { return false; }
  /// Returns whether the kernels of `step` skip it, so that `step_unless` costs no more.
  [[nodiscard]] virtual bool skips_in_kernel() const { return false; }
  virtual void zero_grad() = 0;
  /// Returns whether a step can be captured in a CUDA graph: everything that changes from step to
  /// step is on the device, and set_lr with the current rate does nothing.
  [[nodiscard]] virtual bool is_repeatable() const { return false; }
  /// Sets the learning rate. It is stored in a scalar on the device so that captured steps use it.
  virtual void set_lr(double lr) = 0;
  /// Receives the position before each step, after set_lr, for parameters whose rate another
  /// scheduler sets; both count from 0.
  virtual void set_position(std::int64_t /*epoch*/, std::int64_t /*global_step*/) {}
  [[nodiscard]] virtual double initial_lr() const = 0;
  /// Returns whether the optimizer has a momentum, or a beta1 like Adam, that a scheduler may set
  /// for the following steps. Kernels take it as a plain number, so captured steps ignore changes.
  [[nodiscard]] virtual bool has_momentum() const { return false; }
  virtual void set_momentum(double /*momentum*/) {}
  /// Returns the tensors of the optimizer state in a fixed order, named like PyTorch's after the
  /// parameter: "fc1.weight.exp_avg". They share storage with the optimizer: copying values into
  /// them restores the state of another optimizer with the same options and parameters.
  [[nodiscard]] virtual std::vector<NamedTensor> state() const { return {}; }
  /// Serializes the state that is not in tensors.
  virtual void serialize(StateArchive& /*archive*/) {}
};

struct SchedulerContext {
  double initial_lr = 0;
  std::int64_t max_epochs = 0;  // 0: not known, if only max_time limits the run
  std::int64_t steps_per_epoch = 0;
  std::optional<std::int64_t> max_steps;  // set if the run ends within an epoch
};

/// The learning rate as a function of progress. It holds plain numbers and no tensors.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  /// Returns the learning rate for the next step; `epoch` and `global_step` count from 0.
  [[nodiscard]] virtual double lr(std::int64_t epoch, std::int64_t global_step) const = 0;
  /// Returns the momentum for the next step; nullopt keeps the optimizer's momentum.
  [[nodiscard]] virtual std::optional<double> momentum(std::int64_t /*epoch*/,
                                                       std::int64_t /*global_step*/) const {
    return std::nullopt;
  }
  /// Returns whether the scheduler sets the momentum. Such a run cannot use CUDA graphs and needs
  /// an optimizer with has_momentum().
  [[nodiscard]] virtual bool cycles_momentum() const { return false; }
  /// Receives the monitored value after each validation; only plateau schedulers use it.
  virtual void observe(std::int64_t epoch, double monitored) = 0;
  /// Returns the name of the value to observe, e.g. "val/loss"; empty if it observes nothing.
  [[nodiscard]] virtual std::string monitor() const = 0;
  /// Serializes the state that observed values have changed.
  virtual void serialize(StateArchive& /*archive*/) {}
};

struct StopDecision {
  bool improved = false;
  bool stop = false;
  bool diverged = false;  // training diverged, and the run fails
  std::string reason;     // set if `stop` is true
};

struct StopperContext {};

/// Decides after each validation whether training should end, like Lightning's EarlyStopping.
class Stopper {
 public:
  virtual ~Stopper() = default;
  virtual StopDecision observe(std::int64_t epoch, double monitored) = 0;
  /// Receives the mean training loss since the last log point; only `diverged` of the decision
  /// counts.
  virtual StopDecision observe_step(std::int64_t /*global_step*/, double /*loss*/) { return {}; }
  [[nodiscard]] virtual std::string monitor() const = 0;
  [[nodiscard]] virtual bool restore_best() const = 0;
  /// Serializes the state that observed values have changed.
  virtual void serialize(StateArchive& /*archive*/) {}
};

struct MetricContext {
  std::int64_t classes = 0;  // the number of classes or of regression targets
  at::Device device = at::kCPU;
  spec::Targets targets = spec::Targets::classes;
};

/// A metric whose sums are added over batches and ranks, so that its value does not depend on how
/// the data is split.
class Metric {
 public:
  virtual ~Metric() = default;
  /// Returns the name for tables: "accuracy", "top_5_accuracy".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns whether the logits of `update` may be bfloat16 or float16.
  [[nodiscard]] virtual bool accepts_16_bit() const { return false; }
  /// Adds the rows to `sums()` without synchronizing with the device.
  virtual void update(const at::Tensor& logits, const at::Tensor& targets) = 0;
  /// Returns a float64 1-d tensor; the ranks add theirs before `value` is called.
  virtual at::Tensor& sums() = 0;
  /// Returns the value of all rows in `sums()`. Synchronizes with the device.
  [[nodiscard]] virtual double value() const = 0;
  virtual void reset() = 0;
  /// Returns the number of rows if the metric is a table of counts, such as a confusion matrix;
  /// `value` has no meaning then. 0: the metric is a number.
  [[nodiscard]] virtual std::int64_t table_rows() const { return 0; }
};

/// A metric whose state grows with the rows, for instance because it keeps the score of each row.
/// `sums()` may have any size, and the sums of batches and ranks are merged instead of added. After
/// `reset`, `merge` with the `sums()` of another metric restores that metric's state.
class GrowingMetric : public Metric {
 public:
  /// Adds the rows in `sums`, which come from `sums()` of a metric with the same options.
  virtual void merge(const at::Tensor& sums) = 0;
  /// Discards the rows of the last update if `condition` (bool, on the device) is false.
  virtual void keep_last_update_if(const at::Tensor& condition) = 0;
};

/// Returns the metric as a GrowingMetric, or null if its sums have a fixed size and are added.
inline GrowingMetric* as_growing(Metric& metric) { return dynamic_cast<GrowingMetric*>(&metric); }

/// Adds the rows in `sums` to the metric, by merging or by addition.
inline void merge(Metric& metric, const at::Tensor& sums) {
  if (GrowingMetric* growing = as_growing(metric)) {
    growing->merge(sums);
  } else {
    metric.sums().add_(sums.to(metric.sums().device()));  // the caller counts the host wait
  }
}

}  // namespace trainctl::stage
