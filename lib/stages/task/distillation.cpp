#include "spec/options/task.hpp"
#include "stages/builtin.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/log_softmax.h>

#include <memory>

namespace trainctl::stages {
namespace {

/// The teacher is not part of the run's model, so no checkpoint contains it.
class Distillation final : public stage::Task {
 public:
  Distillation(const spec::task::Distillation& options, const stage::TaskContext& context)
      : teacher_(context.trains ? context.build_frozen(options.teacher, options.weights) : nullptr),
        temperature_(options.temperature),
        alpha_(options.alpha) {}

  stage::TaskResult step(const device::DeviceBatch& batch, stage::StepTools& tools) override {
    if (tools.mode() == stage::RunMode::evaluate) return Task::step(batch, tools);
    stage::TaskResult result{tools.forward(batch.inputs), batch, {}};
    result.loss = tools.loss(result.outputs, batch, 1 - alpha_);
    const at::Tensor taught = tools.forward_frozen(*teacher_, batch.inputs);
    at::Tensor divergence = divergence_of(result.outputs, taught) * alpha_;
    if (result.loss.weight.defined()) divergence = divergence * result.loss.weight;
    result.loss.value = result.loss.value * (1 - alpha_) + divergence;
    return result;
  }

 private:
  /// Returns temperature^2 * KL(teacher | student), the mean over samples or tokens.
  [[nodiscard]] at::Tensor divergence_of(const at::Tensor& outputs,
                                         const at::Tensor& taught) const {
    const auto log_probabilities = [&](const at::Tensor& logits) {
      return at::log_softmax(logits.to(at::kFloat).flatten(0, -2) / temperature_, 1);
    };
    const at::Tensor student = log_probabilities(outputs);
    const at::Tensor sum = at::kl_div(student, log_probabilities(taught), at::Reduction::Sum,
                                      /*log_target=*/true);
    return sum * (temperature_ * temperature_ / static_cast<double>(student.size(0)));
  }

  std::unique_ptr<stage::Model> teacher_;  // null: the task only evaluates
  double temperature_;
  double alpha_;
};

}  // namespace

void register_task_distillation(stage::Catalog& catalog) {
  catalog.tasks.add_class<spec::task::Distillation, Distillation>("distillation");
}

}  // namespace trainctl::stages
