#pragma once

#include "stage/forward_context.hpp"
#include "stage/tensor_backup.hpp"
#include "train/debug/anomaly_detector.hpp"
#include "train/step/captured_step.hpp"
#include "train/step/gradients.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::train {

class ShardedOptimizer;

/// One batch of an optimizer step. With accumulation several of them make a window, and their
/// gradients add up to those of one large batch.
struct MicroBatch {
  const device::DeviceBatch& batch;
  std::int64_t window_rows = 0;  // rows of the whole window over all ranks
  bool opens = true;
  bool closes = true;
  bool logs = false;  // this step is written to the log
};

/// Lengths of all gradients, before clipping, and of all parameters: 0-d, on the device; undefined
/// where they are not asked for.
struct Norms {
  at::Tensor gradient;
  at::Tensor parameter;
};

/// Forward, backward and update of one batch.
class StepRunner {
 public:
  StepRunner(const Session& session, const Options& options, PartTimer& timer,
             dist::GradSync& sync);

  /// Before the first batch of an optimizer step: its learning rate, and the momentum where the
  /// scheduler cycles it. Both come from the scheduler alone.
  void begin_step(double lr, std::optional<double> momentum);

  enum class Result { ok, not_finite, gradient_not_finite };
  /// What is not finite is seen before anything is updated: on a CPU, and with detect_anomaly on a
  /// GPU, at once by a single rank; several see it in the gradient that they share, at the end of
  /// the same step. Any other GPU leaves this and later steps out, and reports at the log point.
  Result run(const MicroBatch& micro);

  LossMeter& meter() { return meter_; }
  [[nodiscard]] const LossMeter& meter() const { return meter_; }
  /// Of the last step that was logged.
  [[nodiscard]] const Norms& norms() const { return norms_; }
  /// Null where a step that is not finite ends the run at once.
  [[nodiscard]] const GradScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }
  /// Whether a step that is not finite never reaches the weights. A GPU would need copies for that
  /// where the optimizer's kernels take no flag: too dear for a run that ends with that step.
  [[nodiscard]] bool keeps_weights() const { return keeps_weights_; }
  /// With detect_anomaly: where this rank's last batch, or the one that spoilt the gradient,
  /// brought up the first value that is not finite.
  [[nodiscard]] std::string anomaly() const;
  /// Ends the checks of detect_anomaly: for steps that are timed after the training.
  void stop_watching() { watch_.reset(); }
  /// Whether steps are recorded, and repeated as a whole.
  [[nodiscard]] bool records() const { return captured_ != nullptr; }
  /// What giving the updated weights to all ranks took since the last call.
  dist::SyncStats take_shared();
  void drop_graph();

 private:
  void make_scaler(const Options& options);
  void enter(AnomalyDetector::Pass pass);
  void clear_gradients();
  Result take(const MicroBatch& micro);
  [[nodiscard]] bool sees_bad_gradient(const MicroBatch& micro);
  at::Tensor share_of(const stage::LossValue& loss, const MicroBatch& micro);
  void add_weight(const at::Tensor& weight, const MicroBatch& micro);
  void divide_by_weight();
  void collect_gradients();
  void backward(const at::Tensor& share, const MicroBatch& micro);
  /// Returns false where the gradient is not finite, and has changed nothing.
  [[nodiscard]] bool update(const MicroBatch& micro);
  [[nodiscard]] bool clip();
  void step_optimizer();
  void restore_buffers();
  void measure_if_finite(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& loss);

  const Session& session_;
  PartTimer& timer_;
  dist::GradSync& sync_;
  ShardedOptimizer* sharded_;               // the session's optimizer; null: it is another
  std::unique_ptr<CapturedStep> captured_;  // null: all steps are taken operation by operation
  LossMeter meter_;
  std::vector<at::Tensor> parameters_;
  at::Tensor window_weight_;                  // of a loss that weighs its rows, over all ranks
  bool divides_ = false;                      // by that, once backward has ended
  dist::Pending weight_of_all_;               // set while it is summed
  std::unique_ptr<stage::RankSum> rank_sum_;  // null: batch normalization is of this rank's rows
  std::vector<at::Tensor> gradients_;         // of the step that is taken
  std::optional<Clipper> clipper_;
  std::optional<GradScaler> scaler_;
  /// The model's buffers before the step, if a step that is left out does not end the run: the
  /// forward pass writes running statistics, in which NaN would stay for good.
  std::optional<stage::KeptTensors> kept_;
  std::optional<AnomalyDetector> watch_;  // with detect_anomaly
  std::string anomaly_;                   // what it found when the gradient was spoilt
  ForwardOptions forward_;
  Norms norms_;
  bool keeps_weights_ = true;
  bool logs_norms_;
  int world_size_;
  bool alone_;  // no other rank sees this one's gradients: there is none, or in local SGD
  bool on_cpu_;
};

std::vector<at::Tensor> trainable(const stage::Model& model);

}  // namespace trainctl::train
