#include "base/machine/machine.hpp"
#include "spec/checks/capture_decl.hpp"
#include "spec/checks/checker.hpp"
#include "spec/loss/cross_entropy.hpp"
#include "spec/loss/nll.hpp"
#include "spec/scheduler/momentum.hpp"

#include <fmt/format.h>

namespace trainctl::spec {
namespace {

bool ignores_rows(const config::Stage& stage) {
  if (stage.options_type == typeid(loss::CrossEntropy))
    return stage.as<loss::CrossEntropy>().ignore_index.has_value();
  return stage.options_type == typeid(loss::Nll) && stage.as<loss::Nll>().ignore_index.has_value();
}

/// What several ranks do within a step that the recorded exchange of their gradients does not.
std::optional<std::string> exchange_obstacle(const Experiment& experiment) {
  const Distributed& options = experiment.distributed;
  if (options.type == Strategy::zero1)
    return "distributed.type zero1 sends weights around within a step";
  if (options.compression != Compression::none)
    return "distributed.compression works on the gradients between two exchanges";
  if (options.find_unused_parameters)
    return "distributed.find_unused_parameters looks for others at every step";
  if (experiment.trainer.sync_batchnorm)
    return "trainer.sync_batchnorm exchanges within the passes of a step";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> capture_obstacle(const Experiment& experiment,
                                            const Placement& placement) {
  const Trainer& trainer = experiment.trainer;
  if (!placement.on_gpus) return "the run is on a CPU";
  if (placement.ranks > 1 && trainer.cuda_graphs.is_auto())
    return "several ranks exchange their gradients within a step, which is recorded where "
           "'cuda_graphs: true' asks for it";
  if (placement.ranks > 1) {
    if (auto obstacle = exchange_obstacle(experiment)) return obstacle;
  }
  if (trainer.accumulate_grad_batches > 1)
    return "trainer.accumulate_grad_batches makes a step of several batches";
  if (trainer.detect_anomaly) return "trainer.detect_anomaly looks at every operation";
  if (experiment.profiler) return "the profiler records single operations";
  if (trainer.activation_checkpointing == ActivationCheckpointing::blocks)
    return "trainer.activation_checkpointing sets the random numbers back within a step";
  if (experiment.model.type == "torchscript")
    return "a scripted model may change its operations while it trains";
  if (scheduled_momentum(experiment.scheduler))
    return "the scheduler cycles the momentum, which kernels take as a plain number";
  if (ignores_rows(experiment.loss) && !experiment.metrics.empty())
    return "metrics leave out the rows of loss.ignore_index, and the host has to count the others";
  if (!experiment.plugins.empty() && trainer.cuda_graphs.is_auto())
    return "what plug-ins do on the host would be done once; write 'cuda_graphs: true' where they "
           "do nothing there";
  return std::nullopt;
}

void check_capture(const Loaded& loaded, config::Diagnostics& diagnostics) {
  const Experiment& experiment = loaded.experiment;
  if (!experiment.trainer.cuda_graphs.value_or(false)) return;
  Checker checker(experiment, loaded.tree, diagnostics);
  if (!checker.sound({"trainer", "model", "profiler", "plugins", "scheduler", "loss", "metrics"}))
    return;
  const auto obstacle =
      capture_obstacle(experiment, placement_of(experiment.trainer, read_machine()));
  if (!obstacle) return;
  checker.error("trainer.cuda_graphs", fmt::format("'cuda_graphs' is true, but {}", *obstacle),
                "write 'cuda_graphs: auto'");
}

}  // namespace trainctl::spec
