#include "base/machine/machine.hpp"
#include "spec/checks/checker.hpp"
#include "spec/experiment/run_size.hpp"

#include <fmt/format.h>

namespace trainctl::spec {
namespace {

void check_backend(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  const Backend backend = experiment.distributed.backend;
  if (!checker.sound(
          {"distributed.backend", "trainer.devices", "trainer.num_nodes", "trainer.accelerator"}))
    return;
  const Placement placement = placement_of(experiment.trainer, read_machine());
  if (backend == Backend::nccl && experiment.trainer.accelerator == Accelerator::cpu) {
    checker.error("distributed.backend", "nccl works on GPUs only, and the accelerator is cpu",
                  "write 'backend: auto'");
  } else if (backend == Backend::nccl && !placement.on_gpus && placement.ranks > 1) {
    checker.error("distributed.backend", "nccl works on GPUs only, and this machine has none",
                  "write 'backend: auto'");
  } else if (backend == Backend::gloo && placement.on_gpus && placement.ranks > 1) {
    checker.error("distributed.backend", "gloo works on CPUs only, and this run is on GPUs",
                  "write 'backend: auto', or 'accelerator: cpu'");
  }
}

/// Rejects data_parallel, since each device has its own process here, and a 'sync_every' that does
/// not fit the type.
void check_type(Checker& checker) {
  const Distributed& options = checker.experiment().distributed;
  if (!checker.sound({"distributed.type", "distributed.sync_every"})) return;
  if (options.type == Strategy::data_parallel) {
    checker.error("distributed.type",
                  "'data_parallel' moves weights and outputs between the devices of one process at "
                  "every step, and cannot run here, where each device has a process of its own",
                  "write 'type: ddp': the same numbers, faster");
  }
  if (options.type == Strategy::local_sgd && !options.sync_every) {
    checker.error("distributed.type",
                  "'local_sgd' averages the weights every so many steps, and 'sync_every' does "
                  "not say how many",
                  "write 'sync_every: 8', say");
  } else if (options.type != Strategy::local_sgd && options.sync_every) {
    checker.error("distributed.sync_every",
                  fmt::format("'sync_every' counts the steps of local_sgd, and the type is '{}'",
                              enum_name(options.type)),
                  "write 'type: local_sgd', or remove 'sync_every'");
  }
}

/// local_sgd exchanges weights, not gradients.
void check_local_sgd(Checker& checker) {
  const Distributed& options = checker.experiment().distributed;
  if (options.type != Strategy::local_sgd || !checker.sound({"distributed", "trainer"})) return;
  if (options.compression != Compression::none) {
    checker.error("distributed.compression",
                  fmt::format("'{}' compresses gradients, and local_sgd exchanges weights",
                              enum_name(options.compression)),
                  "remove 'compression', or write 'type: ddp'");
  }
  if (options.find_unused_parameters) {
    checker.error("distributed.find_unused_parameters",
                  "local_sgd exchanges no gradient, so that none is missed", "remove it");
  }
  const Trainer& trainer = checker.experiment().trainer;
  if (trainer.sync_batchnorm) {
    checker.error("trainer.sync_batchnorm",
                  "the ranks of local_sgd take their steps alone, and batch normalization would "
                  "have to wait for all of them in every layer",
                  "remove it, or write 'type: ddp'");
  }
  const bool swa_in_between = trainer.swa && !trainer.swa->every_n_steps.is_auto();
  if (!trainer.ema && !swa_in_between) return;
  checker.error(trainer.ema ? "trainer.ema" : "trainer.swa.every_n_steps",
                "it averages the weights of steps in which those of the ranks of local_sgd differ",
                trainer.ema ? "write 'swa' with 'every_n_steps: auto', or 'type: ddp'"
                            : "write 'every_n_steps: auto', or 'type: ddp'");
}

void check_compression(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  const Distributed& options = experiment.distributed;
  if (!checker.sound({"distributed", "trainer.precision"})) return;
  const bool is_powersgd = options.compression == Compression::powersgd;
  if (is_powersgd && experiment.trainer.precision == Precision::fp16_mixed) {
    checker.error("distributed.compression",
                  "'powersgd' keeps what it left out for the next step, and 16-mixed may scale "
                  "that step otherwise",
                  "write 'precision: bf16-mixed' or 32-true, or another compression");
  }
  if (!is_powersgd && options.powersgd_rank != Distributed().powersgd_rank) {
    checker.warning(
        "distributed.powersgd_rank",
        fmt::format("it changes nothing: the compression is '{}'", enum_name(options.compression)),
        "write 'compression: powersgd', or remove it");
  }
}

/// libtorch marks a parameter in a recomputed block twice: as unused, and as ready after
/// recomputation.
void check_unused(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (!checker.sound({"distributed.find_unused_parameters", "trainer.activation_checkpointing"}))
    return;
  const bool recomputes =
      experiment.trainer.activation_checkpointing != ActivationCheckpointing::off;
  if (!experiment.distributed.find_unused_parameters || !recomputes) return;
  checker.error("distributed.find_unused_parameters",
                "what 'activation_checkpointing' computes again in the backward pass looks unused "
                "until then",
                "remove one of the two");
}

void check_norms(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (!checker.sound({"trainer.sync_batchnorm", "model"})) return;
  if (!experiment.trainer.sync_batchnorm || experiment.model.type != "torchscript") return;
  checker.error("trainer.sync_batchnorm",
                "a scripted model normalizes by itself, out of reach of the other ranks",
                "remove it, or take a built-in model");
}

}  // namespace

void check_distributed(Checker& checker) {
  check_backend(checker);
  check_type(checker);
  check_local_sgd(checker);
  check_compression(checker);
  check_unused(checker);
  check_norms(checker);
}

}  // namespace trainctl::spec
