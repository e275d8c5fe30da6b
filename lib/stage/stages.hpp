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

// The interfaces the trainer knows. A stage sees its own options and a typed context, never the
// whole experiment.

namespace trainctl::stage {

struct NamedTensor {
  std::string name;  // torchvision's parameter name where the model is torchvision's: "fc1.weight"
  at::Tensor tensor;
};

enum class RunMode { train, evaluate };

/// What a model is built for: shape of one input sample, (C, H, W) of images, and the number of
/// outputs: the classes, or the numbers that are learnt.
struct ModelContext {
  std::vector<std::int64_t> input_shape;
  std::int64_t outputs = 0;
  spec::SampleKind kind = {};
};

/// A network. Parameters keep their identity for the whole run: optimizer and reducer hold on to
/// them.
class Model {
 public:
  virtual ~Model() = default;
  /// inputs: float32 [N, C, H, W] of images, [N, ...] of rows, int64 [N, T] of tokens; returns
  /// logits [N, outputs], [N, T, outputs] where tokens are learnt.
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
  [[nodiscard]] virtual std::vector<NamedTensor> parameters() const = 0;
  [[nodiscard]] virtual std::vector<NamedTensor> buffers() const = 0;
  virtual void set_mode(RunMode mode) = 0;
  virtual void to(at::Device device) = 0;
  /// Whether it is made of blocks, whose activations can be computed again.
  [[nodiscard]] virtual bool has_blocks() const { return false; }
  /// From now on training keeps only what enters each block of the model, and computes the rest
  /// again in the backward pass. Returns false where the model is not made of blocks.
  virtual bool checkpoint_activations() { return false; }
};

/// What a layer of a sequential model is built for: the shape of its input, and how many outputs
/// the data asks for. Layers are small models; what they return has the next layer's shape.
struct LayerContext {
  spec::layer::LayerInput input;
};

struct LossContext {
  std::int64_t outputs = 0;  // of the model: the classes, or the numbers that are learnt
  at::Device device = at::kCPU;
  spec::Targets targets = spec::Targets::classes;
};

/// A mean in a form that batches and ranks can share exactly. Both tensors are 0-d float32 on the
/// loss's device.
struct LossValue {
  at::Tensor
      value;  // the mean over the rows; where they weigh differently, the sum of weight times loss
  at::Tensor weight;  // the sum of the weights, without gradient; undefined: every row weighs 1

  [[nodiscard]] at::Tensor mean() const { return weight.defined() ? value.div(weight) : value; }
};

/// Of rows that were mixed with partners, as mixup and cutmix do.
struct MixedTargets {
  at::Tensor own;      // int64 [N], the rows' classes
  at::Tensor partner;  // int64 [N], those of their partners
  at::Tensor lambda;   // float32 [N], the share of the own class
};

class Loss {
 public:
  virtual ~Loss() = default;
  /// logits [N, outputs] float; targets int64 [N] of classes, float32 [N, outputs] of numbers. Of
  /// tokens logits [N, T, outputs] and targets int64 [N, T].
  virtual LossValue forward(const at::Tensor& logits, const at::Tensor& targets) = 0;
  /// The loss of a mixed row is lambda times that of its own class, plus the rest times that of its
  /// partner's. Throws Error(config) where there is no such loss.
  virtual LossValue forward_mixed(const at::Tensor& logits, const MixedTargets& targets);
  /// A label that is no class and does not count; none: every label is a class.
  [[nodiscard]] virtual std::optional<std::int64_t> ignored_label() const { return std::nullopt; }
};

struct OptimizerContext {
  std::vector<NamedTensor> parameters;  // trainable ones, on their device
  /// Of each parameter whether this optimizer updates it; empty: all. The others are another
  /// rank's, and it keeps nothing for them; rules of rates and decay go by all parameters.
  std::vector<bool> owned = {};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One update from the parameters' gradients; undefined gradients are left out.
  virtual void step() = 0;
  /// The same, but nothing changes where `found_inf` (float32 [1], on the parameters' device) is
  /// not 0. Waits for the device, unless skips_on_device().
  virtual void step_unless(const at::Tensor& found_inf) {
    if (found_inf.item<float>() == 0) step();
  }
  /// Whether `step_unless` leaves a step out without waiting for the device.
  [[nodiscard]] virtual bool skips_on_device() const { return false; }
  /// Whether that costs no more than `step` either, as where the kernels take the flag.
  [[nodiscard]] virtual bool skips_for_nothing() const { return false; }
  virtual void zero_grad() = 0;
  /// Whether a step that was recorded on a GPU does the same as a new one: what changes from step
  /// to step is on the device, and set_lr with the rate that is set already does nothing.
  [[nodiscard]] virtual bool is_repeatable() const { return false; }
  /// The rate as scheduled; a device scalar behind it, so captured steps see it.
  virtual void set_lr(double lr) = 0;
  [[nodiscard]] virtual double initial_lr() const = 0;
  /// Whether there is a momentum, or a beta1 such as Adam's, that a scheduler may set: of the steps
  /// from now on. Kernels take it as a plain number, so captured steps do not see it.
  [[nodiscard]] virtual bool has_momentum() const { return false; }
  virtual void set_momentum(double /*momentum*/) {}
  /// The tensors it keeps from step to step, in a fixed order, named after the parameter and as
  /// PyTorch does: "fc1.weight.exp_avg". They are live: another optimizer of the same options and
  /// parameters goes on alike once their values are copied into its own.
  [[nodiscard]] virtual std::vector<NamedTensor> state() const { return {}; }
  /// What it keeps from step to step beside them.
  virtual void serialize(StateArchive& /*archive*/) {}
};

struct SchedulerContext {
  double initial_lr = 0;
  std::int64_t max_epochs = 0;  // 0: not known, as with max_time alone
  std::int64_t steps_per_epoch = 0;
  std::optional<std::int64_t> max_steps;  // of the run, where it ends within an epoch
};

/// The learning rate as a function of progress; a plain value machine without tensors.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  /// Rate for the step about to run; `epoch` and `global_step` count from 0.
  [[nodiscard]] virtual double lr(std::int64_t epoch, std::int64_t global_step) const = 0;
  /// Momentum for the step about to run; nothing: the optimizer's stays.
  [[nodiscard]] virtual std::optional<double> momentum(std::int64_t /*epoch*/,
                                                       std::int64_t /*global_step*/) const {
    return std::nullopt;
  }
  /// Whether it ever gives one: such a run cannot be captured, and needs an optimizer that has one.
  [[nodiscard]] virtual bool cycles_momentum() const { return false; }
  /// Told after each validation; only plateau schedulers listen.
  virtual void observe(std::int64_t epoch, double monitored) = 0;
  /// The value it wants to observe, e.g. "val/loss"; empty: none.
  [[nodiscard]] virtual std::string monitor() const = 0;
  /// What changed with the values it observed.
  virtual void serialize(StateArchive& /*archive*/) {}
};

struct StopDecision {
  bool improved = false;
  bool stop = false;
  bool diverged = false;  // it stops since training went wrong: the run fails
  std::string reason;     // set where it stops
};

struct StopperContext {};

class Stopper {
 public:
  virtual ~Stopper() = default;
  virtual StopDecision observe(std::int64_t epoch, double monitored) = 0;
  /// Told the mean training loss since the last log point; only `diverged` counts.
  virtual StopDecision observe_step(std::int64_t /*global_step*/, double /*loss*/) { return {}; }
  [[nodiscard]] virtual std::string monitor() const = 0;
  [[nodiscard]] virtual bool restore_best() const = 0;
  /// What changed with the values it observed.
  virtual void serialize(StateArchive& /*archive*/) {}
};

struct MetricContext {
  std::int64_t classes = 0;  // or the numbers that are learnt
  at::Device device = at::kCPU;
  spec::Targets targets = spec::Targets::classes;
};

/// A metric as sums that may be added over batches and ranks: exact however the data is split.
class Metric {
 public:
  virtual ~Metric() = default;
  /// Name in tables: "accuracy", "top_5_accuracy".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Adds the rows to `sums()`; does not synchronize the device.
  virtual void update(const at::Tensor& logits, const at::Tensor& targets) = 0;
  /// float64 1-d tensor; reduced over ranks by addition before `value`.
  virtual at::Tensor& sums() = 0;
  [[nodiscard]] virtual double value() const = 0;
  virtual void reset() = 0;
  /// A metric that is a table: its sums are so many rows of counts, and `value` means nothing. 0:
  /// it is a number.
  [[nodiscard]] virtual std::int64_t table_rows() const { return 0; }
};

/// A metric that keeps what grows with the rows, such as the score of each: `sums()` may have any
/// size, and those of batches and ranks are merged instead of added. After `reset` and `merge` of
/// the `sums()` of another metric it continues like that one.
class GrowingMetric : public Metric {
 public:
  /// Adds other rows: `sums()` of a metric of the same options.
  virtual void merge(const at::Tensor& sums) = 0;
  /// The rows of the last update count only if the bool `condition` on the device holds.
  virtual void keep_last_update_if(const at::Tensor& condition) = 0;
};

/// The metric as one that grows; null: its sums keep their size and are added.
inline GrowingMetric* as_growing(Metric& metric) { return dynamic_cast<GrowingMetric*>(&metric); }

/// Adds the rows that `sums` stands for.
inline void merge(Metric& metric, const at::Tensor& sums) {
  if (GrowingMetric* growing = as_growing(metric)) {
    growing->merge(sums);
  } else {
    metric.sums().add_(sums.to(metric.sums().device()));
  }
}

}  // namespace trainctl::stage
