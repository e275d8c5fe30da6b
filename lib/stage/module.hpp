#pragma once

#include "stage/checkpoint.hpp"
#include "stage/stages.hpp"

#include <memory>
#include <string>
#include <vector>

namespace trainctl::stage {

/// The base class of our models: it owns parameters and buffers under their PyTorch names. Layers
/// keep handles to the same tensors, so `to` moves a model without replacing any tensor.
class Module : public Model {
 public:
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return parameters_; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return buffers_; }
  void set_mode(RunMode mode) override { mode_ = mode; }
  void to(at::Device device) override;
  bool checkpoint_activations() override;

 protected:
  /// Returns part(x), recomputed in the backward pass if activation checkpointing is on.
  [[nodiscard]] at::Tensor checkpointed(const Segment& part, const at::Tensor& x) const {
    return checkpoints_ && training() ? checkpoint(part, x) : part(x);
  }
  /// Applies the blocks in order; each call block(x, mode()) is a checkpointed segment.
  template <class Block>
  [[nodiscard]] at::Tensor through_blocks(const std::vector<Block>& blocks, at::Tensor x) const {
    for (const Block& block : blocks) {
      x = checkpointed([&block, mode = mode_](const at::Tensor& in) { return block(in, mode); }, x);
    }
    return x;
  }
  /// Registers `tensor` as a trainable leaf under `name` and returns it.
  at::Tensor add_parameter(std::string name, at::Tensor tensor);
  at::Tensor add_buffer(std::string name, at::Tensor tensor);
  [[nodiscard]] const RunMode& mode() const { return mode_; }
  [[nodiscard]] bool checkpoints() const { return checkpoints_; }
  [[nodiscard]] bool training() const { return mode_ == RunMode::train; }

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  RunMode mode_ = RunMode::train;
  bool checkpoints_ = false;
};

}  // namespace trainctl::stage
