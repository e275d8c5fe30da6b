#pragma once

#include "data/loader/loader.hpp"
#include "spec/experiment/experiment.hpp"
#include "stage/task.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace trainctl::train {

/// Precision and memory format of the forward pass.
struct ForwardOptions {
  spec::Precision precision = spec::Precision::full;
  bool channels_last = false;
  bool widens_logits = true;  // false: logits of 16 bits stay as they are
};

/// Returns the options of the trainer. `auto` counts as off: a worker resolves it first.
ForwardOptions forward_options(const spec::Trainer& trainer);

/// Returns the model's logits, as float32 unless the options say otherwise. In mixed precision the
/// model runs under autocast like torch.autocast: matrix products and convolutions in 16 bits, sums
/// and norms in 32. Images are converted to channels-last if the options say so.
at::Tensor forward(stage::Model& model, const at::Tensor& inputs, const ForwardOptions& options);

/// Computes the loss of a batch, whose targets may be mixed.
stage::LossValue loss_of(stage::Loss& loss, const at::Tensor& logits,
                         const device::DeviceBatch& batch);

/// Lends a task the model and the loss, for steps outside of the training loop.
class PlainTools : public stage::StepTools {
 public:
  PlainTools(stage::Model& model, stage::Loss& loss, const ForwardOptions& options,
             stage::RunMode mode = stage::RunMode::train)
      : model_(model), loss_(loss), options_(options), mode_(mode) {}
  [[nodiscard]] stage::RunMode mode() const override { return mode_; }
  at::Tensor forward(const at::Tensor& inputs) override {
    return train::forward(model_, inputs, options_);
  }
  at::Tensor forward_frozen(stage::Model& other, const at::Tensor& inputs) override;
  at::Tensor forward_trained(stage::Model& other, const at::Tensor& inputs) override {
    return train::forward(other, inputs, options_);
  }
  stage::LossValue loss(const at::Tensor& outputs, const device::DeviceBatch& batch,
                        double factor = 1) override;
  /// Counts the rows from 0, as if they were the first samples of the data set.
  stage::BatchSamples samples(const device::DeviceBatch& batch) override;

 private:
  stage::Model& model_;
  stage::Loss& loss_;
  const ForwardOptions& options_;
  stage::RunMode mode_;
};

/// Returns the samples of a batch of the loader, with an index for each of the `rows` of the
/// inputs: a rank without samples has a row that does not count.
stage::BatchSamples samples_of(const data::Loader& loader, const data::Batch& batch,
                               std::int64_t rows);

/// Sets the model to evaluation mode while it lives, then back to training mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(stage::Model& model) : model_(model) {
    model_.set_mode(stage::RunMode::evaluate);
  }
  ~EvaluationMode() { model_.set_mode(stage::RunMode::train); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  stage::Model& model_;
};

/// Converts 4-d parameters to channels-last. Call it before the optimizer and the reducer are
/// created.
void lay_out_channels_last(const stage::Model& model);

/// Sums losses and their weights: a sample has weight 1, or the weight of its class. On a GPU the
/// sums stay on the device until they are read.
class LossMeter {
 public:
  enum class NotFinite { counts, is_left_out };
  /// Where rows are counted: the host cannot count them in steps that a CUDA graph replays. With
  /// on_device, the sums of a CPU are tensors, too.
  enum class Rows { on_host, on_device };
  explicit LossMeter(at::Device device, NotFinite not_finite = NotFinite::counts,
                     Rows rows = Rows::on_host);

  /// Adds a loss. Returns false on a CPU if the loss is not finite and NotFinite::counts is set; on
  /// a GPU, and with Rows::on_device, a non-finite loss shows only in the total.
  bool add(const stage::LossValue& loss, std::int64_t rows);
  /// Returns total() and weight() as float64 [2] on the device, without a synchronization.
  [[nodiscard]] at::Tensor sums() const;
  /// Synchronizes with the device.
  [[nodiscard]] double total() const;
  /// Synchronizes with the device if the loss has row weights, losses may be left out, or rows are
  /// counted on the device.
  [[nodiscard]] double weight() const;
  [[nodiscard]] bool leaves_out() const { return leaves_out_; }
  void reset();

  /// Adds the sums of another meter on the same device.
  void add(const LossMeter& other);

  /// Returns the sums on a GPU, which share storage; empty on a CPU.
  [[nodiscard]] std::vector<stage::NamedTensor> state() const;
  void serialize(StateArchive& archive);

 private:
  bool add_on_cpu(const stage::LossValue& loss, std::int64_t rows);
  void add_on_device(const stage::LossValue& loss, std::int64_t rows);

  bool leaves_out_;
  bool on_device_;
  at::Tensor device_total_;   // 0-d float64; undefined if the host adds up
  at::Tensor device_weight_;  // the part of the weight that the host does not count
  double total_ = 0;
  double weight_ = 0;
};

/// Returns the mean loss; 0 if the weight is 0.
inline double mean_loss(double total, double weight) { return weight > 0 ? total / weight : total; }

/// Updates every metric with the rows, except rows with the label that the loss ignores.
/// Synchronizes with the device if the loss has such a label.
void update_metrics(const std::vector<std::unique_ptr<stage::Metric>>& metrics,
                    const stage::Loss& loss, const at::Tensor& logits, const at::Tensor& targets);

}  // namespace trainctl::train
