#pragma once

#include "train/loop/evaluator.hpp"
#include "train/loop/observer.hpp"

namespace trainctl::train {

/// Draws the first samples of a batch with the masks of Task::masks(): for each sample its image as
/// before `normalize`, the predicted mask and the actual mask, uint8 [N, H, W, 3] in host memory.
/// Returns an undefined tensor without masks.
at::Tensor draw_masks(const at::Tensor& masks, const device::DeviceBatch& batch,
                      const std::optional<data::Normalization>& normalization);

/// Writes the images of Task::samples(), or else the masks that the validation has drawn, after
/// each epoch as one PNG file in samples/ of the run folder. Does nothing for tasks without both.
class SampleGrid final : public Observer {
 public:
  /// `validation` may be null. The arguments must outlive it.
  SampleGrid(const Session& session, const Options& options, const Evaluator* validation)
      : session_(session), options_(options), validation_(validation) {}
  /// Removes the pictures of epochs that a resumed run repeats.
  void on_run_begin(LoopState& state) override;
  void on_validation_end(LoopState& state) override;

 private:
  [[nodiscard]] at::Tensor samples(std::int64_t epoch) const;
  [[nodiscard]] std::filesystem::path folder() const { return session_.run_dir / "samples"; }

  const Session& session_;
  const Options& options_;
  const Evaluator* validation_;
};

}  // namespace trainctl::train
