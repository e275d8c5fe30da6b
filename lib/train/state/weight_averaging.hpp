#pragma once

#include "train/loop/observer.hpp"
#include "train/loop/session.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trainctl::train {

/// The average of the weights over steps, as torch.optim.swa_utils.AveragedModel with
/// use_buffers=True: parameters and buffers of floating numbers are averaged, other buffers copied.
class WeightAverager {
 public:
  /// `steps_per_epoch`: optimizer steps, for what counts in epochs.
  WeightAverager(const stage::Model& model, const Averaging& options, std::int64_t steps_per_epoch);

  /// After an optimizer step, of which there were `global_step`. Nothing before the start.
  void update(std::int64_t global_step);
  /// Exchanges the model's weights with the average, in place; nothing before the first update.
  void swap();
  [[nodiscard]] bool swapped_in() const { return swapped_in_; }

  /// The average, live, under the names of the weights; empty before the first update, so restore
  /// the plain values first. Neither this nor `serialize` while it is
  /// swapped in: the model then holds it.
  [[nodiscard]] std::vector<stage::NamedTensor> state() const;
  void serialize(StateArchive& archive);

 private:
  Averaging options_;
  std::int64_t steps_per_epoch_;
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

/// Keeps the average of a run (trainer.ema, trainer.swa), which becomes the model's weights when
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
