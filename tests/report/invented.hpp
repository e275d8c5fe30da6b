#pragma once

#include "report/record/run_record.hpp"
#include "report/record/run_result.hpp"

#include <string>

// The runs have round numbers, so that every number in a golden file can be checked by hand.

namespace invented {

using namespace trainctl;

inline events::EpochEnded epoch(std::int64_t number) {
  const auto n = static_cast<double>(number);
  events::EpochEnded ended;
  ended.epoch = number;
  ended.global_step = 938 * (number + 1);
  ended.lr = number < 2 ? 0.001 : 0.0005;
  ended.metrics = {{"train/loss", 0.25 / (n + 1)},
                   {"val/loss", 0.125 / (n + 1)},
                   {"val/accuracy", 0.95 + n / 100}};
  events::Timing& timing = ended.timing;
  timing.wall_s = number == 0 ? 2.5 : 2.0;
  timing.data_wait_s = number == 0 ? 0.54 : 0.04;
  timing.forward_s = 0.6;
  timing.backward_s = 0.8;
  timing.optimizer_s = 0.3;
  timing.eval_s = 0.1;
  timing.checkpoint_s = 0.02;
  timing.other_s = 0.14;
  timing.samples = 60000;
  timing.samples_per_s = 60000 / (timing.wall_s - 0.12);
  timing.first_batch_s = number == 0 ? 0.5 : 0.01;
  timing.cpu_percent = 98;
  timing.rss_mb = 400;
  ended.data_digest = "00c0ffee00c0ffee";
  ended.improved = number < 3;
  return ended;
}

inline report::RunRecord run(std::int64_t epochs = 4) {
  report::RunRecord record;
  record.add(0, events::Hello{.pid = 4242, .host = "node7", .device = "cpu", .startup_s = 0.9});
  record.add(0, events::RunStarted{.parameters = 109386,
                                   .train_samples = 60000,
                                   .val_samples = 10000,
                                   .steps_per_epoch = 938,
                                   .max_epochs = 5,
                                   .global_batch = 64,
                                   .precision = "32-true",
                                   .monitor = "val/accuracy"});
  for (std::int64_t i = 0; i < epochs; ++i) {
    if (i < 3) {
      record.add(0, events::CheckpointSaved{.path = "checkpoints/best.safetensors",
                                            .epoch = i,
                                            .global_step = 938 * (i + 1),
                                            .metric = "val/accuracy",
                                            .value = 0.95});
    }
    record.add(0, epoch(i));
  }
  record.add(0, events::Finished{.epochs = epochs,
                                 .global_step = 938 * epochs,
                                 .data_digest = "feedfacefeedface",
                                 .parameter_digest = "abad1dea",
                                 .stop_reason = "max_epochs"});
  return record;
}

inline report::RunResult ending() {
  report::RunResult ending;
  ending.started_at = "2026-01-02T03:04:05Z";
  ending.wall_s = 9.75;
  ending.levers.cpu_cores = 8;
  ending.levers.threads_probed = true;
  ending.best_mode = {"max", true};
  ending.run_dir = "runs/mnist-ffn/20260102-030405-ab12";
  ending.command.config = "configs/mnist/ffn.yaml";
  return ending;
}

}  // namespace invented
