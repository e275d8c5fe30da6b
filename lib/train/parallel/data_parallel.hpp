#pragma once

#include "stage/stages.hpp"

#include <c10/core/Device.h>

#include <memory>
#include <vector>

namespace trainctl::train {

/// A model whose batches are divided among several devices of one process, as in
/// torch.nn.DataParallel: each forward pass copies weights and buffers to the replicas, runs each
/// replica on its part of the batch, and gathers the outputs on the first device. The backward pass
/// adds the gradients of the replicas to those of the model. The model runs on the first device
/// itself, so its buffers change, and those of the replicas are discarded.
class DataParallelModel final : public stage::Model {
 public:
  /// `model` is on the first device, and each replica, which must be built with the same options,
  /// on the next one. The weights of the replicas do not matter.
  DataParallelModel(std::unique_ptr<stage::Model> model,
                    std::vector<std::unique_ptr<stage::Model>> replicas,
                    std::vector<at::Device> devices);

  /// Returns the outputs of all rows on the first device. Does not wait for the devices.
  at::Tensor forward(const at::Tensor& inputs) override;
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override {
    return model_->parameters();
  }
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override {
    return model_->buffers();
  }
  void set_mode(stage::RunMode mode) override;
  void to(at::Device device) override { model_->to(device); }

 private:
  std::unique_ptr<stage::Model> model_;
  std::vector<std::unique_ptr<stage::Model>> replicas_;
  std::vector<at::Device> devices_;  // of the model and of each replica
};

}  // namespace trainctl::train
