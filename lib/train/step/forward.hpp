#pragma once

#include "device/feed.hpp"
#include "spec/experiment/experiment.hpp"
#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace trainctl::train {

/// In what form a model computes.
struct ForwardOptions {
  spec::Precision precision = spec::Precision::full;
  bool channels_last = false;
};

/// `auto` counts as off: a worker puts its choice in its place first.
ForwardOptions forward_options(const spec::Trainer& trainer);

/// The model's logits in float32. In a mixed precision the model runs under autocast, as
/// torch.autocast has it: matrix products and convolutions in 16 bits, sums and norms in 32; the
/// loss that follows sees 32 bits. Images are laid out channels-last where the options say so.
at::Tensor forward(stage::Model& model, const at::Tensor& inputs, const ForwardOptions& options);

/// The loss of a batch, whose targets may be mixed.
stage::LossValue loss_of(stage::Loss& loss, const at::Tensor& logits,
                         const device::DeviceBatch& batch);

/// Dropout and the like are off while it lives.
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

/// Lays the parameters of four dimensions out channels-last; before optimizer and reducer see them.
void lay_out_channels_last(const stage::Model& model);

/// Sum of losses and of what they weigh: a sample 1, or its class's weight. On a GPU it stays on
/// the device until it is read.
class LossMeter {
 public:
  enum class NotFinite { counts, is_left_out };
  /// Where a GPU's rows are counted: its host cannot count those of a step that the GPU repeats.
  enum class Rows { on_host, on_device };
  explicit LossMeter(at::Device device, NotFinite not_finite = NotFinite::counts,
                     Rows rows = Rows::on_host);

  /// Returns false where a CPU sees at once that the loss is not finite, and that counts; a GPU
  /// tells when the total is read.
  bool add(const stage::LossValue& loss, std::int64_t rows);
  /// Waits for the device.
  [[nodiscard]] double total() const;
  /// Waits for the device where the loss weighs its rows, may be left out, or rows are counted
  /// there.
  [[nodiscard]] double weight() const;
  [[nodiscard]] bool leaves_out() const { return leaves_out_; }
  void reset();

  /// Adds what another one of the same device has summed.
  void add(const LossMeter& other);

  /// The sums of a GPU, live; none on a CPU.
  [[nodiscard]] std::vector<stage::NamedTensor> state() const;
  void serialize(StateArchive& archive);

 private:
  bool add_on_cpu(const stage::LossValue& loss, std::int64_t rows);
  void add_on_device(const stage::LossValue& loss, std::int64_t rows);

  bool leaves_out_;
  bool on_device_;
  at::Tensor device_total_;   // float64 scalars; undefined on a CPU
  at::Tensor device_weight_;  // of what the host does not count
  double total_ = 0;
  double weight_ = 0;
};

/// The mean of what was summed; 0 where nothing had a weight.
inline double mean_loss(double total, double weight) { return weight > 0 ? total / weight : total; }

/// Adds the rows to every metric, but those of the label that the loss ignores. Waits for the
/// device where there is such a label.
void update_metrics(const std::vector<std::unique_ptr<stage::Metric>>& metrics,
                    const stage::Loss& loss, const at::Tensor& logits, const at::Tensor& targets);

}  // namespace trainctl::train
