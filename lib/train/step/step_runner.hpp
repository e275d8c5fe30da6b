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

/// Norms of all gradients before clipping, and of all parameters: 0-d, on the device; undefined if
/// not requested.
struct Norms {
  at::Tensor gradient;
  at::Tensor parameter;
  at::Tensor gradients;  // of each gradient, float64 [gradients], with log_layer_norms
};

/// Runs forward pass, backward pass and update for one batch.
class StepRunner {
 public:
  StepRunner(const Session& session, const Options& options, PartTimer& timer,
             dist::GradSync& sync);

  /// Sets the learning rate, and the momentum if the scheduler cycles it, before the first batch of
  /// an optimizer step. Both depend on the scheduler only.
  void begin_step(double lr, std::optional<double> momentum);

  enum class Result { ok, not_finite, gradient_not_finite };
  /// Runs one batch. Non-finite values are detected before the update on a CPU, and on a GPU with
  /// detect_anomaly: a single rank detects them at once, several ranks in the reduced gradient at
  /// the end of the same step. Otherwise a GPU skips this and later steps, and reports at the log
  /// point.
  Result run(const MicroBatch& micro);

  LossMeter& meter() { return meter_; }
  [[nodiscard]] const LossMeter& meter() const { return meter_; }
  /// Returns the norms of the last logged step.
  [[nodiscard]] const Norms& norms() const { return norms_; }
  /// Returns null if a non-finite step ends the run at once.
  [[nodiscard]] const GradScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }
  /// Returns whether a non-finite step never changes the weights. If the optimizer's kernels take
  /// no flag, a GPU would need copies for that, which is too expensive for a run that fails with
  /// that step anyway.
  [[nodiscard]] bool keeps_weights() const { return keeps_weights_; }
  /// With detect_anomaly: returns which operator returned the first non-finite value in this rank's
  /// last batch, or in the batch that made the gradient non-finite.
  [[nodiscard]] std::string anomaly() const;
  /// Ends the checks of detect_anomaly, for steps that are timed after the training.
  void stop_watching() { watch_.reset(); }
  /// Returns whether steps are captured as CUDA graphs.
  [[nodiscard]] bool records() const { return captured_ != nullptr; }
  /// Returns the cost of broadcasting updated weights since the last call.
  dist::SyncStats take_shared();
  /// Frees the memory of the CUDA graph; later steps run eagerly.
  void drop_graph();
  /// Returns what drop_graph() destroys, for another thread.
  std::shared_ptr<void> release_graph() { return std::move(captured_); }

 private:
  class Tools;
  void make_scaler(const Options& options);
  void enter(AnomalyDetector::Pass pass);
  void clear_gradients();
  Result take(const MicroBatch& micro);
  [[nodiscard]] bool sees_bad_gradient(const MicroBatch& micro);
  [[nodiscard]] std::optional<double> loss_gradient(const MicroBatch& micro) const;
  at::Tensor share_of(const stage::LossValue& loss, const MicroBatch& micro);
  void add_weight(const at::Tensor& weight, const MicroBatch& micro);
  void divide_by_weight();
  void collect_gradients();
  void backward(const at::Tensor& share, const MicroBatch& micro);
  /// Returns false if the gradient is not finite; nothing has changed then.
  [[nodiscard]] bool update(const MicroBatch& micro);
  [[nodiscard]] bool clip_checks() const;
  [[nodiscard]] bool clip();
  void step_optimizer();
  void measure_norms();
  void restore_buffers();
  void measure_if_finite(const at::Tensor& outputs, const at::Tensor& targets,
                         const at::Tensor& loss);

  const Session& session_;
  PartTimer& timer_;
  dist::GradSync& sync_;
  ShardedOptimizer* sharded_;               // the session's optimizer; null: it is not sharded
  std::unique_ptr<CapturedStep> captured_;  // null: all steps run eagerly
  LossMeter meter_;
  std::vector<at::Tensor> parameters_;
  at::Tensor window_weight_;     // for a loss with row weights, over all ranks
  bool divides_ = false;         // whether to divide by window_weight_ after the backward pass
  dist::Pending weight_of_all_;  // set while window_weight_ is being summed
  std::unique_ptr<stage::RankSum> rank_sum_;  // null: batch norm is local
  std::vector<at::Tensor> gradients_;         // of the current step
  std::optional<Clipper> clipper_;
  std::optional<GradScaler> scaler_;
  /// Backs up the model's buffers before the step if a skipped step does not end the run: the
  /// forward pass would leave NaN in the running statistics for good.
  std::optional<stage::KeptTensors> kept_;
  std::optional<AnomalyDetector> watch_;  // set with detect_anomaly
  std::string anomaly_;                   // the anomaly found when the gradient became non-finite
  ForwardOptions forward_;
  Norms norms_;
  Result result_ = Result::ok;    // of the last batch that ran host code
  std::int64_t full_window_ = 0;  // rows of a window of full batches, over all ranks
  bool keeps_weights_ = true;
  bool logs_norms_;
  bool logs_layers_;
  int world_size_;
  bool alone_;          // gradients are not shared: there is one rank, or local SGD is used
  bool reads_on_host_;  // on a CPU, which reads values for free, unless steps are captured
};

/// Returns the parameters that require gradients.
std::vector<at::Tensor> trainable(const stage::Model& model);

}  // namespace trainctl::train
