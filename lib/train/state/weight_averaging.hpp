#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/session.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trainctl::train {

/// The average of the weights over steps, like torch.optim.swa_utils.AveragedModel with
/// use_buffers=True: parameters and floating-point buffers are averaged, other buffers are copied.
class WeightAverager {
 public:
  /// `steps_per_epoch` is the number of optimizer steps, for options that count epochs.
  WeightAverager(const stage::Model& model, const Averaging& options, std::int64_t steps_per_epoch);

  /// Updates the average after optimizer step number `global_step`. Does nothing before the start
  /// epoch.
  void update(std::int64_t global_step);
  /// Swaps the model's weights with the average in place; does nothing before the first update.
  void swap();
  [[nodiscard]] bool swapped_in() const { return swapped_in_; }

  /// Returns the average, which shares storage, under the names of the weights. It is empty before
  /// the first update, so restore the plain values first. Do not call it or `serialize` while the
  /// average is swapped in, because the model holds it then.
  [[nodiscard]] std::vector<stage::NamedTensor> state() const;
  void serialize(StateArchive& archive);

 private:
  void make_chunks();
  void move_averages(double share);

  Averaging options_;
  std::int64_t steps_per_epoch_;
  std::vector<at::Tensor> weights_, averages_;              // averaged
  std::vector<at::Tensor> plain_weights_, plain_averages_;  // those that are not in chunks_
  at::Tensor chunks_;  // device::AverageChunk [N] in GPU memory; undefined: there is no kernel
  std::vector<at::Tensor> others_, copies_;  // copied
  std::vector<stage::NamedTensor> named_;    // averages_ and copies_
  std::int64_t updates_ = 0;
  bool swapped_in_ = false;
};

/// Swaps the average into the model while it lives. A null averager does nothing.
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

/// Maintains the average of a run (trainer.ema, trainer.swa) and loads it into the model when
/// training has ended.
class WeightAveraging final : public Observer {
 public:
  static constexpr const char* kKey = "averager";

  WeightAveraging(const Session& session, const Options& options, std::int64_t steps_per_epoch)
      : session_(session), averager_(session.model, *options.averaging, steps_per_epoch) {}

  [[nodiscard]] WeightAverager& averager() { return averager_; }

  void on_step_end(LoopState& state) override { averager_.update(state.position.global_step); }
  void on_run_end(LoopState& state) override;

  [[nodiscard]] std::string_view state_key() const override { return kKey; }
  void serialize(StateArchive& archive) override { averager_.serialize(archive); }
  [[nodiscard]] std::vector<StateTensor> tensors() const override;
  [[nodiscard]] std::uint64_t expected_bytes() const override;

 private:
  const Session& session_;
  WeightAverager averager_;
};

}  // namespace trainctl::train
