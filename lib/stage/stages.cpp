#include "stage/stages.hpp"

#include "base/error.hpp"
#include "stage/task.hpp"

namespace trainctl::stage {

LossValue Loss::forward_mixed(const at::Tensor& /*logits*/, const MixedTargets& /*targets*/) {
  throw Error(
      ErrorKind::config,
      "the loss does not take the mixed labels of batch_transforms\nhint: choose a loss that "
      "takes them (cross_entropy, nll, bce_with_logits), or remove batch_transforms");
}

TaskResult Task::step(const device::DeviceBatch& batch, StepTools& tools) {
  TaskResult result{tools.forward(batch.inputs), batch, {}};
  result.loss = tools.loss(result.outputs, batch);
  return result;
}

Task& supervised_task() {
  static Task task;
  return task;
}

}  // namespace trainctl::stage
