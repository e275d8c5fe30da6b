#pragma once

#include "spec/experiment/experiment.hpp"
#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::train {

struct Averaging {
  std::optional<double> decay;               // of an exponential average; none: the mean of all
  config::Auto<std::int64_t> every_n_steps;  // auto: those of an epoch
  std::int64_t start_epoch = 0;
  std::optional<spec::DecayWarmup> decay_warmup = {};
};

/// Nothing where the trainer averages nothing.
std::optional<Averaging> averaging_of(const spec::Trainer& trainer);

/// The average of the weights over steps, as torch.optim.swa_utils.AveragedModel with
/// use_buffers=True: parameters and buffers of floating numbers are averaged, other buffers copied.
class WeightAverager {
 public:
  /// `steps_per_epoch`: optimizer steps, for what counts in epochs.
  WeightAverager(const stage::Model& model, const Averaging& options, std::int64_t steps_per_epoch);

  /// Whether `update` takes the weights in after that step.
  [[nodiscard]] bool is_due(std::int64_t global_step) const;
  /// After an optimizer step, of which there were `global_step`. Nothing before the start.
  void update(std::int64_t global_step);
  /// Exchanges the model's weights with the average, in place; nothing before the first update.
  void swap();
  [[nodiscard]] bool swapped_in() const { return swapped_in_; }

  /// The average, live, under the names of the weights; empty before the first update, so restore
  /// the plain values first. Neither this nor `memorise` while it is
  /// swapped in: the model then holds it.
  [[nodiscard]] std::vector<stage::NamedTensor> state() const;
  void memorise(Memo& memo);

 private:
  Averaging options_;
  std::int64_t start_;  // in steps
  std::int64_t every_;
  std::vector<at::Tensor> weights_, averages_;  // that are averaged
  std::vector<at::Tensor> others_, copies_;     // that are copied
  std::vector<stage::NamedTensor> named_;       // averages_ and copies_
  std::int64_t updates_ = 0;
  bool swapped_in_ = false;
};

/// The average is the model's weights while it lives; null: nothing happens.
class AveragedWeights {
 public:
  explicit AveragedWeights(WeightAverager* averager) : averager_(averager) {
    if (averager_ != nullptr) averager_->swap();
  }
  ~AveragedWeights() {
    if (averager_ != nullptr) averager_->swap();
  }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  WeightAverager* averager_;
};

}  // namespace trainctl::train
