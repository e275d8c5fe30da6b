#include "device/device.hpp"
#include "device/kernels.hpp"
#include "engine/engine_run.hpp"
#include "launch/supervise/verdict.hpp"
#include "support/catch.hpp"

#include <ATen/Context.h>

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

using namespace trainctl;
using engine_run::Ended;
using engine_run::kSmall;
using engine_run::run_engine;

TEST_CASE("engine: trains from a run folder and emits events") {
  TempFolder folder;
  const Ended ended = run_engine(folder, kSmall);
  REQUIRE(ended.code == 0);
  REQUIRE(std::holds_alternative<events::Hello>(ended.events.front()));
  CHECK(ended.find<events::Hello>()->device == "cpu");
  CHECK(ended.find<events::Hello>()->startup_s > 0);
  const auto* started = ended.find<events::RunStarted>();
  REQUIRE(started != nullptr);
  CHECK(started->parameters == 784 * 16 + 16 + 16 * 10 + 10);
  CHECK(started->steps_per_epoch == 10);
  CHECK(started->num_threads_why == "configured");
  CHECK(started->monitor == "val/loss");
  CHECK_FALSE(started->captures_steps);  // on a CPU
  CHECK(started->data_fingerprints.contains("val"));
  REQUIRE(std::holds_alternative<events::Finished>(ended.events.back()));
  CHECK(ended.find<events::Finished>()->epochs == 2);
  CHECK(std::filesystem::exists(folder / "checkpoints/best.safetensors"));
  CHECK(std::filesystem::exists(folder / "checkpoints/last.safetensors"));
}

TEST_CASE("seed: losses and weights depend on the seed, not on the probe of threads") {
  std::array<std::string, 3> digests;
  const std::string text = kSmall;
  const std::array configs{text, text, text.substr(0, text.rfind(", num_threads")) + " }\n"};
  for (std::size_t i = 0; i < digests.size(); ++i) {
    TempFolder folder;
    const Ended ended = run_engine(folder, configs[i]);
    REQUIRE(ended.code == 0);
    if (i == 2 && ended.find<events::RunStarted>()->num_threads != 1)
      return;  // the order of additions differs
    digests[i] = ended.find<events::Finished>()->parameter_digest +
                 ended.find<events::Finished>()->data_digest;
  }
  CHECK(digests[0] == digests[1]);
  CHECK(digests[0] == digests[2]);
}

TEST_CASE("engine: a training split with mixup works with a validation split without it") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("samples: 300 }"), 14,
                 "samples: 300, batch_transforms: [{type: mixup, alpha: 0.4}, cutmix] }");
  const Ended ended = run_engine(folder, config);
  REQUIRE(ended.code == 0);
  CHECK(ended.find<events::Finished>()->epochs == 2);
}

TEST_CASE("num_workers auto: a probe chooses the number, and weights do not depend on it") {
  const auto outcome = [](const std::string& loader) {
    TempFolder folder;
    std::string config = kSmall;
    config.replace(config.find("batch_size: 32"), 14, "batch_size: 32" + loader);
    const Ended ended = run_engine(folder, config);
    REQUIRE(ended.code == 0);
    const auto* started = ended.find<events::RunStarted>();
    const auto* finished = ended.find<events::Finished>();
    return std::pair(*started, finished->parameter_digest + finished->data_digest);
  };
  const auto [configured, expected] = outcome(", num_workers: 3, prefetch_factor: 5");
  CHECK(configured.num_workers == 3);
  CHECK(configured.prefetch_factor == 5);
  CHECK(configured.num_workers_why == "configured");
  const auto [probed, found] = outcome("");
  CHECK_THAT(probed.num_workers_why, StartsWith("probe: a batch takes ") && Contains("a step "));
  CHECK(probed.prefetch_factor >= 1);
  CHECK(found == expected);
}

TEST_CASE("activation_checkpointing: losses are unchanged, and auto reports its choice") {
  std::map<std::string, double> losses;
  for (const std::string setting : {"off", "blocks", "auto"}) {
    INFO(setting);
    TempFolder folder;
    std::string config = kSmall;
    config.replace(config.find("{ type: mlp, hidden: [16] }"), 27,
                   "{ type: resnet_cifar, depth: 8 }");
    config.replace(config.find("samples: 300"), 12, "samples: 64");
    config.replace(config.find("max_epochs: 2"), 13,
                   "max_epochs: 1, channels_last: false, activation_checkpointing: " + setting);
    const Ended ended = run_engine(folder, config);
    REQUIRE(ended.code == 0);
    const auto* started = ended.find<events::RunStarted>();
    CHECK(started->recomputes == (setting == "blocks"));
    CHECK(started->recomputes_why.empty() == (setting != "auto"));
    REQUIRE(ended.find<events::EpochEnded>() != nullptr);
    losses[setting] = ended.find<events::EpochEnded>()->metrics.front().second;
  }
  CHECK(losses["blocks"] == Approx(losses["off"]).epsilon(1e-5));
  CHECK(losses["auto"] == losses["off"]);
}

TEST_CASE("float32_matmul_precision: the option is applied, and the default is highest") {
  using Precision = at::Float32MatmulPrecision;
  const std::array<std::pair<std::string, Precision>, 3> cases{
      std::pair{", float32_matmul_precision: high", Precision::HIGH},
      std::pair{", float32_matmul_precision: medium", Precision::MEDIUM},
      std::pair{"", Precision::HIGHEST}};
  for (const auto& [option, precision] : cases) {
    INFO(option);
    TempFolder folder;
    std::string config = kSmall;
    config.replace(config.find("max_epochs: 2"), 13, "max_steps: 1" + option);
    CHECK(run_engine(folder, config).code == 0);
    CHECK(at::globalContext().float32MatmulPrecision() == precision);
  }
}

TEST_CASE("cache: mode device on a CPU is an error that suggests mode decoded") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("accelerator: cpu, "), 18, "accelerator: auto, ");
  config.replace(config.find("loader:"), 0, "  cache: { mode: device }\n");
  if (device::cuda_devices() > 0 && device::kernels_built()) skip("this machine has a GPU");
  const Ended ended = run_engine(folder, config);
  CHECK(ended.code == 2);
  REQUIRE(ended.find<events::Failed>() != nullptr);
  CHECK_THAT(ended.find<events::Failed>()->message, Contains("set dataset.cache.mode to decoded"));
}

TEST_CASE("cache: mode device gives the same losses as no cache", "[gpu][kernels]") {
  if (device::cuda_devices() == 0 || !device::kernels_built()) skip("no GPU, or no kernels");
  std::vector<double> losses;
  for (const std::string mode : {"none", "device"}) {
    TempFolder folder;
    std::string config = kSmall;
    config.replace(config.find("accelerator: cpu"), 16, "accelerator: gpu");
    config.replace(config.find("loader:"), 0, "  cache: { mode: " + mode + " }\n");
    const Ended ended = run_engine(folder, config);
    REQUIRE(ended.code == 0);
    CHECK(ended.find<events::Finished>()->data_digest.empty() == (mode == "device"));
    losses.push_back(ended.find<events::EpochEnded>()->metrics.front().second);
  }
  CHECK(losses[0] == Approx(losses[1]).epsilon(1e-5));
}

TEST_CASE("max_steps: limits a run without max_epochs and sets the schedule's length") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("max_epochs: 2"), 13, "max_steps: 125");
  config += "scheduler: { type: cosine_annealing_lr, interval: step }\n";
  const Ended ended = run_engine(folder, config);
  REQUIRE(ended.code == 0);
  CHECK(ended.find<events::RunStarted>()->max_epochs == 13);
  CHECK(ended.find<events::Finished>()->global_step == 125);
  double last_lr = 1;
  for (const auto& event : ended.events) {
    if (const auto* epoch = std::get_if<events::EpochEnded>(&event)) last_lr = epoch->lr;
  }
  CHECK(last_lr < 1e-4);
}

TEST_CASE("max_time: limits a run without max_epochs") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("max_epochs: 2"), 13, "max_time: 1s");
  const Ended ended = run_engine(folder, config);
  REQUIRE(ended.code == 0);
  CHECK(ended.find<events::RunStarted>()->max_epochs == 0);
  CHECK(ended.find<events::Finished>()->stop_reason == "max_time");
}

TEST_CASE("engine: an error is an event, an error file and the exit code of its kind") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("hidden: [16]"), 12, "hidden: [0]");
  const Ended ended = run_engine(folder, config);
  CHECK(ended.code == 2);
  REQUIRE(ended.find<events::Failed>() != nullptr);
  CHECK(ended.find<events::Failed>()->kind == 2);
  CHECK_THAT(ended.find<events::Failed>()->message, Contains("hidden"));
  CHECK(ended.find<events::Failed>()->phase == events::Phase::startup);
  const auto file = launch::read_error_file(folder / "logs", 0);
  REQUIRE(file.has_value());
  CHECK(file->kind == 2);
}

TEST_CASE("engine: a run folder without a config is a config error") {
  TempFolder folder;
  CHECK(run_engine(folder, "").code == 2);
}

TEST_CASE("engine: a diverging run exits with code 6 and reports the step") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("adam, lr: 0.01"), 14, "sgd, lr: 1.0e+30");
  const Ended ended = run_engine(folder, config);
  CHECK(ended.code == 6);
  REQUIRE(ended.find<events::Failed>() != nullptr);
  CHECK(ended.find<events::Failed>()->phase == events::Phase::train);
  CHECK(ended.find<events::Failed>()->global_step > 0);
}

TEST_CASE("engine: a run that diverges in its last step exports no weights") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("adam, lr: 0.01"), 14, "sgd, lr: 1.0e+30");
  config.replace(config.find("max_epochs: 2"), 13, "max_steps: 1");
  CHECK(run_engine(folder, config).code == 6);
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoints/last.safetensors"));
}

TEST_CASE("engine: an unknown mode is an error") {
  TempFolder folder;
  const TrainctlEngineRequest request{.run_dir = folder.path().c_str(),
                                      .mode = "dance",
                                      .rank = 0,
                                      .world_size = 1,
                                      .local_rank = 0,
                                      .local_world_size = 1,
                                      .event_fd = -1,
                                      .heartbeat_fd = -1,
                                      .store_fd = -1,
                                      .stop_signal = nullptr};
  CHECK(trainctl_engine_v1(&request) == 2);
}
