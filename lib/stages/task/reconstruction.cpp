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
    return Task::step(own, tools);
  }
};

}  // namespace

void register_task_reconstruction(stage::Catalog& catalog) {
  catalog.tasks.add_class<spec::task::Reconstruction, Reconstruction>("reconstruction");
}

}  // namespace trainctl::stages
