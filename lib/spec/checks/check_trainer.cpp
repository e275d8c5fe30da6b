#include "base/machine/machine.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment/value_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::spec {
namespace {

void check_devices(Checker& checker) {
  const Trainer& trainer = checker.experiment().trainer;
  if (!checker.is_valid("trainer.devices") || !checker.is_valid("trainer.accelerator")) return;
  const int gpus =
      trainer.accelerator == Accelerator::cpu ? 0 : static_cast<int>(read_machine().gpus.size());
  if (trainer.accelerator == Accelerator::gpu && gpus == 0)
    return checker.error("trainer.accelerator",
                         "'accelerator: gpu' needs an NVIDIA GPU, but this machine has none",
                         "write 'accelerator: auto', or find the cause with 'trainctl doctor'");
  const int asked = trainer.devices.value_or(1);
  if (trainer.devices.is_list() && gpus == 0)
    return checker.error("trainer.devices",
                         "'devices' lists GPUs, but the run is on CPUs, which have no numbers",
                         fmt::format("write 'devices: {}' for as many processes", asked));
  if (trainer.devices.is_list() && std::ranges::max(trainer.devices.gpus) >= gpus)
    return checker.error(
        "trainer.devices",
        fmt::format("'devices' lists GPU {}, but this machine has {} GPU{}",
                    std::ranges::max(trainer.devices.gpus), gpus, plural(gpus)),
        fmt::format("write numbers from 0 to {}; 'trainctl doctor' lists the GPUs", gpus - 1));
  if (gpus > 0 && asked > gpus) {
    checker.error("trainer.devices",
                  fmt::format("{} devices are requested, but this machine has {} GPU{}", asked,
                              gpus, plural(gpus)));
  } else if (gpus == 0 && asked > usable_cores()) {
    checker.warning("trainer.devices",
                    fmt::format("{} processes share {} core{}, which makes the run slower", asked,
                                usable_cores(), plural(usable_cores())),
                    fmt::format("write {} or less", usable_cores()));
  }
}

void check_limits(Checker& checker) {
  const Trainer& trainer = checker.experiment().trainer;
  if (trainer.max_time && checker.is_valid("trainer.max_time") &&
      !parse_duration(*trainer.max_time)) {
    checker.error(
        "trainer.max_time",
        fmt::format("'max_time' must be a duration, got '{}'", printable(*trainer.max_time)),
        "write \"DD:HH:MM:SS\", or 90s, 30m, 1h30m, 2d");
  }
  if (checker.is_valid({"trainer.overfit_batches", "trainer.limit_train_batches"}) &&
      trainer.overfit_batches > 0 && trainer.limit_train_batches != Limit{}) {
    checker.error("trainer.overfit_batches",
                  "'overfit_batches' and 'limit_train_batches' both set the length of an epoch",
                  "remove one of them");
  }
  const auto epochs = trainer.epoch_limit();
  if (epochs && trainer.check_val_every_n_epoch > *epochs && checker.is_valid("trainer")) {
    checker.warning("trainer.check_val_every_n_epoch",
                    fmt::format("the run of {} epoch{} ends before its first validation", *epochs,
                                plural(*epochs)));
  }
}

/// The ranks of local SGD have different weights except at the end of an epoch.
void check_evaluations(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (checker.is_valid({"trainer.val_check_interval", "distributed"}) &&
      experiment.trainer.val_check_interval != Limit{} &&
      experiment.distributed.type == Strategy::local_sgd)
    checker.error("trainer.val_check_interval",
                  "'distributed.type: local_sgd' validates only at the end of an epoch",
                  "remove 'val_check_interval'");
  if (checker.is_valid({"trainer.test", "dataset"}) && experiment.trainer.test &&
      !experiment.dataset.test)
    checker.error("trainer.test", "'test: true' needs a test set, but there is no 'dataset.test'",
                  "add 'dataset.test' or 'dataset.split.test', or remove 'test'");
}

/// The supervisor polls five times a second, so with less than a second any pause would look like a
/// hang.
void check_hang_timeout(Checker& checker) {
  const auto& limit = checker.experiment().trainer.hang_timeout.value;
  if (!limit || !checker.is_valid("trainer.hang_timeout")) return;
  const auto seconds = parse_duration(*limit);
  if (seconds && *seconds >= 1) return;
  checker.error(
      "trainer.hang_timeout",
      fmt::format("'hang_timeout' must be a duration of at least 1s, got '{}'", printable(*limit)),
      "write auto, or 90s, 5m, 1h30m, \"DD:HH:MM:SS\"");
}

void check_checkpoints(Checker& checker) {
  const Checkpoint& checkpoint = checker.experiment().checkpoint;
  const auto& every = checkpoint.every_t;
  if (every && checker.is_valid("checkpoint.every_t") && !parse_duration(*every)) {
    checker.error("checkpoint.every_t",
                  fmt::format("'every_t' must be a duration, got '{}'", printable(*every)),
                  "write \"DD:HH:MM:SS\", or 90s, 30m, 1h30m, 2d");
  }
  const bool sound = checker.is_valid({"checkpoint.save_weights_only", "trainer.max_restarts"});
  const int restarts = checker.experiment().trainer.max_restarts;
  if (sound && checkpoint.save_weights_only && restarts > 0) {
    checker.warning("checkpoint.save_weights_only",
                    fmt::format("a restart cannot resume from a checkpoint with weights only, but "
                                "'trainer.max_restarts' is {}",
                                restarts),
                    "write 'save_weights_only: false', or set 'trainer.max_restarts' to 0");
  }
}

/// The trials that find a batch size run on one node and do not inform the others.
void check_nodes(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (!checker.is_valid({"trainer.num_nodes", "loader.batch_size"})) return;
  if (experiment.trainer.num_nodes == 1 || !experiment.loader.batch_size.automatic) return;
  checker.error("loader.batch_size",
                fmt::format("'batch_size: auto' works on one node only, but the run has {} nodes",
                            experiment.trainer.num_nodes),
                "run once with trainer.num_nodes=1, and write the batch size of that run");
}

/// The cost was measured on matrix products of 1,024 x 1,024 on a CPU that has only AVX2: 2.2 s
/// instead of 25 ms.
void check_precision(Checker& checker) {
  const Trainer& trainer = checker.experiment().trainer;
  if (trainer.precision == Precision::full || trainer.allow_slow_precision) return;
  if (!checker.is_valid({"trainer.precision", "trainer.accelerator", "trainer.devices"})) return;
  const Machine machine = read_machine();
  if (placement_of(trainer, machine).on_gpus) return;
  const bool bf16 = trainer.precision == Precision::bf16_mixed;
  const auto has = [&](const char* feature) {
    return std::ranges::find(machine.cpu_features, feature) != machine.cpu_features.end();
  };
  if (bf16 ? has("avx512_bf16") || has("amx_bf16") : has("avx512_fp16") || has("amx_fp16")) return;
  checker.error("trainer.precision",
                fmt::format("this CPU has no {} instructions: matrix products take about 90 times "
                            "as long as in float32, convolutions 8 times",
                            bf16 ? "bfloat16" : "float16"),
                "remove 'precision', or write 'allow_slow_precision: true'");
}

void check_deterministic(Checker& checker) {
  const Trainer& trainer = checker.experiment().trainer;
  if (!trainer.deterministic || !checker.is_valid("trainer")) return;
  if (trainer.benchmark.value_or(false))
    checker.error("trainer.benchmark",
                  "'benchmark: true' chooses kernels by their measured time, so it cannot be "
                  "combined with 'deterministic: true'",
                  "write 'benchmark: auto'");
  if (trainer.float32_matmul_precision != MatmulPrecision::highest)
    checker.warning("trainer.float32_matmul_precision",
                    "'deterministic: true' computes in IEEE float32, so "
                    "'float32_matmul_precision' has no effect",
                    "remove 'float32_matmul_precision', or set 'deterministic' to false");
}

void check_averaging(Checker& checker) {
  const Trainer& trainer = checker.experiment().trainer;
  if (!checker.is_valid("trainer")) return;
  if (trainer.ema && trainer.swa)
    checker.error("trainer.swa", "'ema' and 'swa' both replace the weights", "remove one of them");
  const auto check_start = [&](const char* key, std::int64_t start) {
    const auto epochs = trainer.epoch_limit();
    if (!epochs || start < *epochs) return;
    checker.error(fmt::format("trainer.{}.start_epoch", key),
                  fmt::format("the average starts after epoch {}, but the run has only {} epoch{}",
                              start, *epochs, plural(*epochs)),
                  fmt::format("start earlier, or remove '{}'", key));
  };
  if (trainer.ema) check_start("ema", trainer.ema->start_epoch);
  if (trainer.swa) check_start("swa", trainer.swa->start_epoch);
}

void check_views(Checker& checker) {
  const auto& views = checker.experiment().trainer.test_time_augmentation;
  if (!views || !checker.is_valid("trainer.test_time_augmentation")) return;
  if (views->horizontal_flip || views->translate > 0) return;
  checker.error("trainer.test_time_augmentation",
                "test-time augmentation without 'horizontal_flip' and 'translate' has one view",
                "write 'horizontal_flip: true', or remove 'test_time_augmentation'");
}

/// Returns the number of updates of an average in a run of `steps` steps.
std::int64_t updates_of(std::int64_t steps, std::int64_t first_step, std::int64_t every) {
  return std::max<std::int64_t>(0, steps - first_step) / every;
}

}  // namespace

void check_averages(Checker& checker, const RunLength& length) {
  constexpr double kMostShare = 0.05;  // of the initial weights, which have learned nothing
  const Trainer& trainer = checker.experiment().trainer;
  if (!checker.is_valid("trainer") || !length.steps || length.steps_per_epoch == 0) return;
  const auto updates_in_run = [&](const char* key, std::int64_t start_epoch, std::int64_t every) {
    const std::int64_t start = start_epoch * length.steps_per_epoch;
    const std::int64_t updates = updates_of(*length.steps, start, every);
    if (updates == 0)
      checker.warning(key, fmt::format("the average is never updated: the first update is due "
                                       "after {} steps, but the run ends after {}",
                                       start + every, *length.steps));
    return updates;
  };
  if (trainer.swa) {
    updates_in_run("trainer.swa", trainer.swa->start_epoch,
                   trainer.swa->every_n_steps.value_or(length.steps_per_epoch));
  }
  if (!trainer.ema) return;
  const Ema& ema = *trainer.ema;
  const std::int64_t updates = updates_in_run("trainer.ema", ema.start_epoch, ema.every_n_steps);
  if (updates == 0) return;
  const double share = share_of_first(ema.exponential_decay(), updates);
  if (share <= kMostShare) return;
  const double fitting =
      std::pow(kMostShare, 1 / std::max<double>(1, static_cast<double>(updates - 1)));
  checker.warning(
      "trainer.ema.decay",
      fmt::format("the weights of the first update would still make up {:.0f} % of the average at "
                  "the end: a decay of {} averages over about {} updates, but the run has {}",
                  100 * share, ema.decay, with_thousands(std::llround(1 / (1 - ema.decay))),
                  with_thousands(updates)),
      ema.use_warmup
          ? fmt::format("write a decay of at most {:.3g}, or train longer", fitting)
          : fmt::format("write 'use_warmup: true', a decay of at most {:.3g}, or train longer",
                        fitting));
}

void check_trainer(Checker& checker) {
  const Trainer& trainer = checker.experiment().trainer;
  check_devices(checker);
  check_limits(checker);
  check_evaluations(checker);
  check_hang_timeout(checker);
  check_checkpoints(checker);
  check_nodes(checker);
  check_precision(checker);
  check_deterministic(checker);
  check_averaging(checker);
  check_views(checker);
  if (checker.experiment().loader.batch_size.automatic)
    checker.warning("loader.batch_size",
                    fmt::format("'trainctl run' finds the batch size by trials; before that, "
                                "checks and estimates assume {}, the smallest batch size tried",
                                BatchSize::kSmallest));
  if (trainer.gradient_clip_algorithm != ClipAlgorithm::norm && !trainer.gradient_clip_val) {
    checker.warning("trainer.gradient_clip_algorithm",
                    "nothing is clipped: 'gradient_clip_val' is not set");
  }
}

}  // namespace trainctl::spec
