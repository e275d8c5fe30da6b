#include "base/error.hpp"
#include "spec/options/task.hpp"
#include "stages/builtin.hpp"

#include <ATen/ops/stack.h>
#include <fmt/ranges.h>

namespace trainctl::stages {
namespace {

/// The images of a batch have one more channel than the model gets, the mask.
class Segmentation final : public stage::Task {
 public:
  stage::TaskResult step(const device::DeviceBatch& batch, stage::StepTools& tools) override {
    constexpr std::int64_t kWithMasks = 3;  // dimensions of the targets
    device::DeviceBatch own = batch;
    if (batch.targets.dim() != kWithMasks) {  // otherwise, a made-up batch of a measurement
      constexpr double kScale = 255;          // of the transforms, which map pixels to 0 to 1
      const std::int64_t channels = batch.inputs.size(1) - 1;
      own.inputs = batch.inputs.narrow(1, 0, channels);
      own.targets = batch.inputs.select(1, channels).mul(kScale).round().to(at::kLong);
    }
    stage::TaskResult result{tools.forward(own.inputs), own, {}};
    const auto& shape = result.outputs.sizes();
    ENSURE(config, shape.size() == 4 && shape.slice(2) == own.targets.sizes().slice(1),
           "the model must give each pixel one score for each class, but its output has the shape "
           "[{}]\nhint: choose model unet, or convolutions that keep the size of images",
           fmt::join(shape, ", "));
    result.loss = tools.loss(result.outputs, own);
    return result;
  }

  [[nodiscard]] at::Tensor masks(const stage::TaskResult& result) const override {
    return at::stack({result.outputs.argmax(1), result.batch.targets}, 1);
  }
};

}  // namespace

void register_task_segmentation(stage::Catalog& catalog) {
  catalog.tasks.add_class<spec::task::Segmentation, Segmentation>("segmentation");
}

}  // namespace trainctl::stages
