#include "base/files.hpp"
#include "engine/entry.h"
#include "events/codec.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fcntl.h>

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

/// A worker that measures, in this process.
Outcome measure(const std::string& model, const std::string& more = "", int batch_size = 32,
                const char* mode = "measure") {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "logs");
  std::ofstream(folder / "config.resolved.yaml")
      << "dataset: { train: { type: synthetic_digits, samples: 20000 } }\n"
      << "loader: { batch_size: " << batch_size << " }\n"
      << "model: " << model << "\noptimizer: { type: adam, lr: 0.01 }\n"
      << "trainer: { accelerator: cpu, devices: 1, num_threads: 1" << more << " }\n";
  const std::string path = (folder / "events").string();
  const Fd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const TrainctlEngineRequest request{.run_dir = folder.path().c_str(),
                                      .mode = mode,
                                      .rank = 0,
                                      .world_size = 1,
                                      .local_rank = 0,
                                      .local_world_size = 1,
                                      .event_fd = out.get(),
                                      .heartbeat_fd = -1,
                                      .store_fd = -1,
                                      .stop_signal = nullptr,
                                      .accelerator = "cpu"};
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

constexpr std::int64_t kParameters = 784 * 16 + 16 + 16 * 10 + 10;
constexpr const char* kSmall = "{ type: mlp, hidden: [16] }";

}  // namespace

TEST_CASE("the tensors of a step are counted to the byte") {
  const Outcome outcome = measure(kSmall);
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
  CHECK(cost.measured_batches == std::vector<std::int64_t>{32});
  CHECK_FALSE(cost.step_s.has_value());
}

TEST_CASE("a sample's operations do not depend on the batch, nor on the optimizer") {
  const std::int64_t first = 2 * 784 * 16;
  const std::int64_t second = 2 * 16 * 10;
  for (const int batch_size : {3, 8, 50}) {
    const Outcome outcome = measure(kSmall, "", batch_size);
    REQUIRE(outcome.measured.has_value());
    CHECK(outcome.measured->forward_flops == first + second);
    CHECK(outcome.measured->step_flops == 2 * first + 3 * second);  // no gradient of the input
  }
}

TEST_CASE("averages take the weights once more, and accumulation keeps the gradients") {
  const Outcome plain = measure("{ type: mlp, hidden: [2000] }");
  const Outcome averaged =
      measure("{ type: mlp, hidden: [2000] }", ", ema: { decay: 0.9 }, accumulate_grad_batches: 4");
  REQUIRE(plain.measured.has_value());
  REQUIRE(averaged.measured.has_value());
  CHECK(averaged.measured->average_bytes == averaged.measured->weight_bytes);
  CHECK(averaged.measured->activation_bytes >= plain.measured->activation_bytes);
}

TEST_CASE("a batch that would take too much is extrapolated from two small ones") {
  const std::string wide = "{ type: mlp, hidden: [4000, 4000] }";
  const Outcome huge = measure(wide, "", 1 << 24);
  REQUIRE(huge.measured.has_value());
  CHECK(huge.measured->batch_size == 1 << 24);
  REQUIRE(huge.measured->measured_batches.size() == 2);
  const std::int64_t less = huge.measured->measured_batches[0];
  CHECK(less >= 4);
  CHECK(huge.measured->measured_batches[1] == 2 * less);
  CHECK(less < 1 << 20);
  CHECK(huge.measured->batch_bytes == (std::int64_t{1} << 24) * (784 * 4 + 8));
  // At least both hidden layers behind their activations.
  CHECK(huge.measured->activation_bytes > (std::int64_t{1} << 24) * 2 * 4000 * 4);
  CHECK(huge.measured->activation_bytes < (std::int64_t{1} << 24) * 8 * 4000 * 4);
}

TEST_CASE("a probe times steps, with the threads of a run") {
  const Outcome outcome = measure(kSmall, "", 32, "probe");
  REQUIRE(outcome.measured.has_value());
  CHECK(outcome.measured->step_s.value_or(0) > 0);
  CHECK(outcome.measured->num_threads == 1);
}

TEST_CASE("what a run would refuse is refused, with its exit code") {
  const Outcome absent = measure("{ type: torchscript, path: nowhere.pt }");
  CHECK(absent.code != 0);
  CHECK_FALSE(absent.measured.has_value());
  CHECK_FALSE(absent.message.empty());
  const Outcome mode = measure(kSmall, "", 32, "dream");
  CHECK(mode.code == 2);
  CHECK_THAT(mode.message, Contains("'dream'"));
}
