#include "base/files.hpp"
#include "device/device.hpp"
#include "engine/entry.h"
#include "events/pipe.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"
#include "support/temp_folder.hpp"
#include "train/measure/auto_settings.hpp"

#include <ATen/Context.h>
#include <fcntl.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

using namespace trainctl;

extern "C" int trainctl_engine_v1(const TrainctlEngineRequest* request);

namespace {

struct Outcome {
  int code = 0;
  std::optional<events::Measured> measured;
  std::string message;  // of a failure
};

struct MeasureOptions {
  std::string model;
  std::string more = {};  // further options of the trainer
  int batch_size = 32;
  const char* mode = "measure";
  const char* accelerator = "cpu";
  std::string optimizer = "adam";
};

/// Runs a worker that measures, in this process.
Outcome measure(const MeasureOptions& options) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "logs");
  std::ofstream(folder / "config.resolved.yaml")
      << "dataset: { train: { type: synthetic_digits, samples: 20000 } }\n"
      << "loader: { batch_size: " << options.batch_size << " }\n"
      << "model: " << options.model << "\noptimizer: { type: " << options.optimizer
      << ", lr: 0.01 }\n"
      << "trainer: { accelerator: " << options.accelerator << ", devices: 1, num_threads: 1"
      << options.more << " }\n";
  const std::string path = (folder / "events").string();
  const Fd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const TrainctlEngineRequest request{.run_dir = folder.path().c_str(),
                                      .mode = options.mode,
                                      .rank = 0,
                                      .world_size = 1,
                                      .local_rank = 0,
                                      .local_world_size = 1,
                                      .event_fd = out.get(),
                                      .heartbeat_fd = -1,
                                      .store_fd = -1,
                                      .stop_signal = nullptr,
                                      .accelerator = options.accelerator};
  Outcome outcome;
  outcome.code = trainctl_engine_v1(&request);
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    const events::Event event = events::decode(line);
    if (const auto* found = std::get_if<events::Measured>(&event)) outcome.measured = *found;
    if (const auto* failed = std::get_if<events::Failed>(&event)) outcome.message = failed->message;
  }
  return outcome;
}

Outcome measure(const std::string& model, const std::string& more = "", int batch_size = 32,
                const char* mode = "measure", const char* accelerator = "cpu") {
  return measure(MeasureOptions{model, more, batch_size, mode, accelerator});
}

constexpr std::int64_t kParameters = 784 * 16 + 16 + 16 * 10 + 10;
constexpr const char* kSmallModel = "{ type: mlp, hidden: [16] }";

}  // namespace

TEST_CASE("measure: the bytes of weights, gradients, optimizer and batch are exact") {
  const Outcome outcome = measure(kSmallModel);
  REQUIRE(outcome.measured.has_value());
  const events::Measured& cost = *outcome.measured;
  CHECK(outcome.code == 0);
  CHECK(cost.device == "cpu");
  CHECK(cost.parameters == kParameters);
  CHECK(cost.trainable_parameters == kParameters);
  CHECK(cost.weight_bytes == 4 * kParameters);
  CHECK(cost.gradient_bytes == 4 * kParameters);
  CHECK(cost.optimizer_bytes >= 8 * kParameters);  // two moments, and a few scalars
  CHECK(cost.optimizer_bytes < 8 * kParameters + 1024);
  CHECK(cost.batch_bytes == 32 * 784 * 4 + 32 * 8);
  CHECK(cost.average_bytes == 0);
  CHECK(cost.best_bytes == 4 * kParameters);
  CHECK(cost.saved_bytes == cost.weight_bytes + cost.optimizer_bytes + cost.best_bytes);
  CHECK(cost.measured_batches == std::vector<std::int64_t>{32});
  CHECK(cost.parameter_bytes ==
        std::vector<std::int64_t>{4 * 784 * 16, 4 * 16, 4 * 16 * 10, 4 * 10});
  CHECK_FALSE(cost.step_s.has_value());
  CHECK_FALSE(cost.backward_s.has_value());
}

TEST_CASE("probe: the backward pass takes part of the step time") {
  const Outcome outcome = measure(kSmallModel, "", 32, "probe");
  REQUIRE(outcome.measured.has_value());
  REQUIRE(outcome.measured->step_s.has_value());
  REQUIRE(outcome.measured->backward_s.has_value());
  CHECK(*outcome.measured->backward_s > 0);
  CHECK(*outcome.measured->backward_s < *outcome.measured->step_s);
}

TEST_CASE("measure: saved_bytes counts everything in a checkpoint, and is 0 without checkpoints") {
  const Outcome averaged = measure(kSmallModel, ", ema: { decay: 0.9 }");
  REQUIRE(averaged.measured.has_value());
  CHECK(averaged.measured->saved_bytes ==
        12 * kParameters + averaged.measured->optimizer_bytes);  // weights, average, best
  const Outcome tried = measure(kSmallModel, ", fast_dev_run: true");
  REQUIRE(tried.measured.has_value());
  CHECK(tried.measured->saved_bytes == 0);
}

TEST_CASE("measure: operations per sample do not depend on batch size or optimizer") {
  const std::int64_t first = 2 * 784 * 16;
  const std::int64_t second = 2 * 16 * 10;
  for (const int batch_size : {3, 8, 50}) {
    const Outcome outcome = measure(kSmallModel, "", batch_size);
    REQUIRE(outcome.measured.has_value());
    CHECK(outcome.measured->forward_flops == first + second);
    CHECK(outcome.measured->step_flops == 2 * first + 3 * second);  // no gradient of the input
  }
}

TEST_CASE("measure: averaging stores the weights again, and accumulation keeps the gradients") {
  const Outcome plain = measure("{ type: mlp, hidden: [2000] }");
  const Outcome averaged =
      measure("{ type: mlp, hidden: [2000] }", ", ema: { decay: 0.9 }, accumulate_grad_batches: 4");
  REQUIRE(plain.measured.has_value());
  REQUIRE(averaged.measured.has_value());
  CHECK(averaged.measured->average_bytes == averaged.measured->weight_bytes);
  CHECK(averaged.measured->activation_bytes >= plain.measured->activation_bytes);
}

TEST_CASE(
    "measure: copies for skipped steps on GPUs are counted for optimizers without a skip flag") {
  const std::string skips = ", skip_nonfinite_steps: 3";
  const auto copies = [](const std::string& optimizer, const std::string& more) {
    const Outcome outcome = measure({.model = kSmallModel, .more = more, .optimizer = optimizer});
    REQUIRE(outcome.measured.has_value());
    return outcome.measured->gpu_copy_bytes;
  };
  CHECK(copies("lion", skips) >= 8 * kParameters);  // weights and one moment
  CHECK(copies("lion", skips) < 8 * kParameters + 1024);
  CHECK(copies("nadam", skips) >= 12 * kParameters);
  CHECK(copies("lion", "") == 0);
  CHECK(copies("lion", ", skip_nonfinite_steps: 0") == 0);
  for (const std::string optimizer : {"adam", "adagrad", "sgd, momentum: 0.9"})
    CHECK(copies(optimizer, skips) == 0);
  CHECK(copies("sgd, momentum: 0.9, dampening: 0.1", skips) >= 8 * kParameters);
}

TEST_CASE("activation_checkpointing auto: a model without blocks recomputes nothing") {
  const Outcome outcome = measure(kSmallModel, ", activation_checkpointing: auto");
  REQUIRE(outcome.measured.has_value());
  CHECK_FALSE(outcome.measured->recomputes);
  CHECK(outcome.measured->recomputes_why == "the model has no blocks");
}

// One test, because measuring the batch takes several seconds.
TEST_CASE(
    "measure: a batch that is too large is extrapolated from two small ones, and recomputes "
    "blocks") {
  const std::string blocks = "{ type: resnet_cifar, depth: 14 }";
  const std::string setting = ", activation_checkpointing: ";
  const Outcome small = measure(blocks, setting + "auto", 4);
  REQUIRE(small.measured.has_value());
  CHECK_FALSE(small.measured->recomputes);
  CHECK_THAT(small.measured->recomputes_why,
             StartsWith("activations need about ") && Contains("free, so they are kept"));
  const Outcome huge = measure(blocks, setting + "auto", 1 << 24);
  REQUIRE(huge.measured.has_value());
  CHECK(huge.measured->batch_size == 1 << 24);
  REQUIRE(huge.measured->measured_batches.size() == 2);
  const std::int64_t less = huge.measured->measured_batches[0];
  CHECK(less >= 4);
  CHECK(huge.measured->measured_batches[1] == 2 * less);
  CHECK(less < 1 << 20);
  CHECK(huge.measured->batch_bytes == (std::int64_t{1} << 24) * (784 * 4 + 8));
  // At least the inputs of the first three blocks.
  CHECK(huge.measured->activation_bytes > (std::int64_t{1} << 24) * 3 * 16 * 28 * 28 * 4);
  CHECK(huge.measured->recomputes);
  CHECK_THAT(huge.measured->recomputes_why,
             Contains("TiB plus ") && Contains("free, so blocks are recomputed"));
  const Outcome kept = measure(blocks, setting + "off", 1 << 6);
  REQUIRE(kept.measured.has_value());
  CHECK(kept.measured->recomputes_why.empty());
  constexpr std::int64_t kTimes = 1 << 18;  // as many samples
  CHECK(huge.measured->activation_bytes < kept.measured->activation_bytes * kTimes / 5 * 4);
}

TEST_CASE("probe: steps are timed with the configured number of threads") {
  const Outcome outcome = measure(kSmallModel, "", 32, "probe");
  REQUIRE(outcome.measured.has_value());
  CHECK(outcome.measured->step_s.value_or(0) > 0);
  CHECK(outcome.measured->num_threads == 1);
}

TEST_CASE("measure: a missing model file or an unknown mode is an error") {
  const Outcome absent = measure("{ type: torchscript, path: nowhere.pt }");
  CHECK(absent.code != 0);
  CHECK_FALSE(absent.measured.has_value());
  CHECK_FALSE(absent.message.empty());
  const Outcome mode = measure(kSmallModel, "", 32, "dream");
  CHECK(mode.code == 2);
  CHECK_THAT(mode.message, Contains("'dream'"));
}

TEST_CASE("measure: on a GPU, host memory includes CUDA's part, and free GPU memory is known",
          "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  const Outcome host = measure("{ type: mlp, hidden: [2000] }", "", 4096);
  const Outcome device = measure("{ type: mlp, hidden: [2000] }", "", 4096, "measure", "gpu");
  REQUIRE(host.measured.has_value());
  INFO(device.message);
  REQUIRE(device.measured.has_value());
  CHECK(device.measured->device == "cuda:0");
  CHECK(device.measured->measured_batches == std::vector<std::int64_t>{4096});
  CHECK(device.measured->weight_bytes == host.measured->weight_bytes);
  CHECK(device.measured->process_bytes > host.measured->process_bytes + (std::int64_t{50} << 20));
  const auto available = device::cuda_available_memory(at::Device(at::kCUDA, 0));
  REQUIRE(available.has_value());
  CHECK(*available > std::int64_t{1} << 30);
}

TEST_CASE("cuda_available_memory: a CPU has none") {
  CHECK_FALSE(device::cuda_available_memory(at::kCPU).has_value());
}

TEST_CASE("least_of_ranks: every rank gets the smallest value") {
  std::array<std::int64_t, 3> least{};
  RankGroup group(3);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    const std::array<std::int64_t, 3> free{std::int64_t{1} << 40, 300, 500};
    const auto mine = static_cast<std::size_t>(rank);
    least[mine] = train::least_of_ranks(free[mine], *communicator);
  });
  CHECK(least == std::array<std::int64_t, 3>{300, 300, 300});
}
