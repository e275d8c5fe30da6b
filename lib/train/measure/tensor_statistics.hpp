#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/session.hpp"
#include "train/step/step_runner.hpp"

#include <vector>

namespace trainctl::train {

/// Reports the norms of the layers' gradients at log points (trainer.log_layer_norms), and
/// histograms of weights and gradients for TensorBoard. It exists on rank 0 only. On a GPU, the
/// host waits for the values.
class TensorStatistics final : public Observer {
 public:
  /// The arguments must outlive it.
  TensorStatistics(const Session& session, const Options& options, const StepRunner& step);

  void on_step_end(LoopState& state) override;

 private:
  void report_norms(const LoopState& state) const;
  void report_distributions(const LoopState& state) const;

  const Session& session_;
  const Options& options_;
  const StepRunner& step_;
  std::vector<stage::NamedTensor> trained_;
};

}  // namespace trainctl::train
