#include "spec/options/task.hpp"
#include "stages/builtin.hpp"

namespace trainctl::stages {
namespace {

class Reconstruction final : public stage::Task {
 public:
  stage::TaskResult step(const device::DeviceBatch& batch, stage::StepTools& tools) override {
    device::DeviceBatch own = batch;
    own.targets = batch.inputs.flatten(1);
    own.targets_b = own.lambda = at::Tensor();
    stage::TaskResult result{tools.forward(batch.inputs).flatten(1), own, {}};
    result.loss = tools.loss(result.outputs, own);
    return result;
  }
};

}  // namespace

void register_task_reconstruction(stage::Catalog& catalog) {
  catalog.tasks.add_class<spec::task::Reconstruction, Reconstruction>("reconstruction");
}

}  // namespace trainctl::stages
