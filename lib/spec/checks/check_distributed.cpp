#include "base/machine/machine.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/experiment.hpp"

#include <fmt/format.h>

namespace trainctl::spec {
namespace {

void check_backend(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  const Backend backend = experiment.distributed.backend;
  if (!checker.is_valid(
          {"distributed.backend", "trainer.devices", "trainer.num_nodes", "trainer.accelerator"}))
    return;
  const Placement placement = placement_of(experiment.trainer, read_machine());
  if (backend == Backend::nccl && experiment.trainer.accelerator == Accelerator::cpu) {
    checker.error("distributed.backend", "nccl works on GPUs only, and trainer.accelerator is cpu",
                  "write 'backend: auto'");
  } else if (backend == Backend::nccl && !placement.on_gpus && placement.ranks > 1) {
    checker.error("distributed.backend", "nccl works on GPUs only, and this machine has none",
                  "write 'backend: auto'");
  } else if (backend == Backend::gloo && placement.on_gpus && placement.ranks > 1) {
    checker.error("distributed.backend", "gloo works on CPUs only, and this run is on GPUs",
                  "write 'backend: auto', or set trainer.accelerator: cpu");
  }
}

/// Rejects a 'sync_every' that does not fit the type.
void check_type(Checker& checker) {
  const Distributed& options = checker.experiment().distributed;
  if (!checker.is_valid({"distributed.type", "distributed.sync_every"})) return;
  if (options.type == Strategy::local_sgd && !options.sync_every) {
    checker.error(
        "distributed.type",
        "'local_sgd' needs 'sync_every', the number of steps between two averages of the weights",
        "write, for example, 'sync_every: 8'");
  } else if (options.type != Strategy::local_sgd && options.sync_every) {
    checker.error("distributed.sync_every",
                  fmt::format("'sync_every' applies only to local_sgd, but the type is '{}'",
                              enum_name(options.type)),
                  "write 'type: local_sgd', or remove 'sync_every'");
  }
}

/// data_parallel is one process that exists to be compared with ddp, so it supports only what such
/// a comparison needs.
void check_data_parallel(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (experiment.distributed.type != Strategy::data_parallel ||
      !checker.is_valid({"distributed", "trainer"}))
    return;
  const Trainer& trainer = experiment.trainer;
  const char* const hint = "write 'type: ddp', which gives the same results faster";
  if (!placement_of(trainer, read_machine()).on_gpus) {
    checker.error("distributed.type",
                  fmt::format("'data_parallel' needs GPUs, but this run is on CPUs; {}",
                              kDataParallelIsSlower),
                  hint);
  }
  const auto refuse_if = [&](bool is_set, const char* key) {
    if (is_set)
      checker.error(key,
                    "'data_parallel' is one process without other ranks and supports no "
                    "such setting",
                    hint);
  };
  refuse_if(trainer.num_nodes > 1, "trainer.num_nodes");
  refuse_if(trainer.sync_batchnorm, "trainer.sync_batchnorm");
  refuse_if(trainer.activation_checkpointing != ActivationCheckpointing::off,
            "trainer.activation_checkpointing");
  refuse_if(experiment.distributed.compression != Compression::none, "distributed.compression");
}

/// local_sgd exchanges weights, not gradients.
void check_local_sgd(Checker& checker) {
  const Distributed& options = checker.experiment().distributed;
  if (options.type != Strategy::local_sgd || !checker.is_valid({"distributed", "trainer"})) return;
  if (options.compression != Compression::none) {
    checker.error("distributed.compression",
                  fmt::format("'{}' compresses gradients, but local_sgd exchanges weights",
                              enum_name(options.compression)),
                  "remove 'compression', or write 'type: ddp'");
  }
  if (options.find_unused_parameters) {
    checker.error("distributed.find_unused_parameters",
                  "'find_unused_parameters' has no effect with local_sgd", "remove it");
  }
  const Trainer& trainer = checker.experiment().trainer;
  if (trainer.sync_batchnorm) {
    checker.error("trainer.sync_batchnorm",
                  "'sync_batchnorm' exchanges values within each step, but the ranks of local_sgd "
                  "step independently",
                  "remove it, or set distributed.type: ddp");
  }
  const bool swa_in_between = trainer.swa && !trainer.swa->every_n_steps.is_auto();
  if (!trainer.ema && !swa_in_between) return;
  checker.error(
      trainer.ema ? "trainer.ema" : "trainer.swa.every_n_steps",
      fmt::format("'{}' would average weights at steps at which the weights differ between the "
                  "ranks of local_sgd",
                  trainer.ema ? "ema" : "swa"),
      trainer.ema
          ? "replace 'ema' by 'swa' with 'every_n_steps: auto', or set distributed.type: ddp"
          : "write 'every_n_steps: auto', or set distributed.type: ddp");
}

void check_compression(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  const Distributed& options = experiment.distributed;
  if (!checker.is_valid({"distributed", "trainer.precision"})) return;
  const bool is_powersgd = options.compression == Compression::powersgd;
  if (is_powersgd && experiment.trainer.precision == Precision::fp16_mixed) {
    checker.error("distributed.compression",
                  "'powersgd' cannot be combined with trainer.precision 16-mixed: powersgd adds "
                  "the error of the previous step, which may have another loss scale",
                  "set trainer.precision: bf16-mixed, or choose another compression");
  }
  if (!is_powersgd && options.powersgd_rank != Distributed().powersgd_rank) {
    checker.warning("distributed.powersgd_rank",
                    fmt::format("'powersgd_rank' has no effect: the compression is '{}'",
                                enum_name(options.compression)),
                    "write 'compression: powersgd', or remove 'powersgd_rank'");
  }
}

/// libtorch marks a parameter in a recomputed block twice: as unused, and as ready after
/// recomputation. Parameters that are still frozen are unused, too.
void check_unused(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (!checker.is_valid({"distributed.find_unused_parameters", "trainer.activation_checkpointing",
                         "unfreeze_at"}))
    return;
  const bool recomputes =
      experiment.trainer.activation_checkpointing != ActivationCheckpointing::off;
  if (!experiment.unfreeze_at.empty() && recomputes)
    checker.error("unfreeze_at",
                  "'unfreeze_at' cannot be combined with trainer.activation_checkpointing: "
                  "parameters of recomputed blocks look frozen",
                  "remove 'unfreeze_at', or set trainer.activation_checkpointing: off");
  if (!experiment.distributed.find_unused_parameters || !recomputes) return;
  checker.error(
      "distributed.find_unused_parameters",
      "'find_unused_parameters' cannot be combined with trainer.activation_checkpointing: "
      "parameters of recomputed blocks look unused",
      "remove 'find_unused_parameters', or set trainer.activation_checkpointing: off");
}

void check_norms(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (!checker.is_valid({"trainer.sync_batchnorm", "model"})) return;
  if (!experiment.trainer.sync_batchnorm || experiment.model.type != "torchscript") return;
  checker.error("trainer.sync_batchnorm",
                "'sync_batchnorm' cannot be applied to a TorchScript model",
                "remove it, or choose a built-in model");
}

}  // namespace

void check_distributed(Checker& checker) {
  check_backend(checker);
  check_type(checker);
  check_data_parallel(checker);
  check_local_sgd(checker);
  check_compression(checker);
  check_unused(checker);
  check_norms(checker);
}

}  // namespace trainctl::spec
