#include "engine/entry.h"

#include "base/files.hpp"
#include "base/safetensors.hpp"
#include "checkpoint/names.hpp"
#include "checkpoint/verify.hpp"
#include "device/cuda.hpp"
#include "device/kernels.hpp"
#include "events/codec.hpp"
#include "launch/failure.hpp"
#include "spec/task.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <ATen/Context.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

using namespace trainctl;

extern "C" int trainctl_engine_v1(const TrainctlEngineRequest* request);

namespace {

constexpr const char* kSmall = R"(name: small
seed: 1
dataset:
  train: { type: synthetic_digits, split: train, samples: 300 }
  val: { type: synthetic_digits, split: test, samples: 100 }
loader: { batch_size: 32 }
model: { type: mlp, hidden: [16] }
optimizer: { type: adam, lr: 0.01 }
metrics: [accuracy]
trainer: { accelerator: cpu, max_epochs: 2, num_threads: 1 }
)";

struct Ended {
  int code = 0;
  std::vector<events::Event> events;

  template <class Event>
  [[nodiscard]] const Event* find() const {
    for (const auto& event : events) {
      if (const auto* one = std::get_if<Event>(&event)) return one;
    }
    return nullptr;
  }
};

/// Runs the engine in this process; events go through a file instead of a pipe.
Ended run_engine(const TempFolder& folder, const std::string& config, int stop_signal = 0,
                 const char* mode = "train") {
  std::filesystem::create_directories(folder / "logs");
  if (!config.empty()) std::ofstream(folder / "config.resolved.yaml") << config;
  const std::string path = (folder / "events").string();
  const Fd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const volatile int stop = stop_signal;
  const TrainctlEngineRequest request{.run_dir = folder.path().c_str(),
                                      .mode = mode,
                                      .rank = 0,
                                      .world_size = 1,
                                      .local_rank = 0,
                                      .local_world_size = 1,
                                      .event_fd = out.get(),
                                      .heartbeat_fd = -1,
                                      .store_fd = -1,
                                      .stop_signal = &stop};
  Ended ended;
  ended.code = trainctl_engine_v1(&request);
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) ended.events.push_back(events::decode(line));
  return ended;
}

}  // namespace

TEST_CASE("the engine trains from a run folder and tells it in events") {
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
  CHECK(started->num_threads_why == "asked");
  CHECK(started->monitor == "val/loss");
  CHECK(started->data_fingerprints.contains("val"));
  REQUIRE(std::holds_alternative<events::Finished>(ended.events.back()));
  CHECK(ended.find<events::Finished>()->epochs == 2);
  CHECK(std::filesystem::exists(folder / "checkpoints/best.safetensors"));
  CHECK(std::filesystem::exists(folder / "checkpoints/last.safetensors"));
}

TEST_CASE("the seed decides every loss and every weight, the probe of threads nothing") {
  std::array<std::string, 3> digests;
  const std::string text = kSmall;
  const std::array configs{text, text, text.substr(0, text.rfind(", num_threads")) + " }\n"};
  for (std::size_t i = 0; i < digests.size(); ++i) {
    TempFolder folder;
    const Ended ended = run_engine(folder, configs[i]);
    REQUIRE(ended.code == 0);
    if (i == 2 && ended.find<events::RunStarted>()->num_threads != 1)
      return;  // other sums of floats
    digests[i] = ended.find<events::Finished>()->parameter_digest +
                 ended.find<events::Finished>()->data_digest;
  }
  CHECK(digests[0] == digests[1]);
  CHECK(digests[0] == digests[2]);
}

TEST_CASE("a mixed training split and a validation split that is not mixed fit each other") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("samples: 300 }"), 14,
                 "samples: 300, batch_transforms: [{type: mixup, alpha: 0.4}, cutmix] }");
  const Ended ended = run_engine(folder, config);
  REQUIRE(ended.code == 0);
  CHECK(ended.find<events::Finished>()->epochs == 2);
}

TEST_CASE("auto chooses the loader's threads by a probe, and no batch or weight depends on it") {
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
  const auto [asked, expected] = outcome(", num_workers: 3, prefetch_factor: 5");
  CHECK(asked.num_workers == 3);
  CHECK(asked.prefetch_factor == 5);
  CHECK(asked.num_workers_why == "asked");
  const auto [probed, found] = outcome("");
  CHECK_THAT(probed.num_workers_why, StartsWith("probe: a batch takes ") && Contains("a step "));
  CHECK(probed.prefetch_factor >= 1);
  CHECK(found == expected);
}

TEST_CASE("recomputing blocks changes no loss, and auto tells what it has chosen") {
  std::map<std::string, double> losses;
  for (const std::string wish : {"off", "blocks", "auto"}) {
    INFO(wish);
    TempFolder folder;
    std::string config = kSmall;
    config.replace(config.find("{ type: mlp, hidden: [16] }"), 27,
                   "{ type: resnet_cifar, depth: 8 }");
    config.replace(config.find("samples: 300"), 12, "samples: 64");
    config.replace(config.find("max_epochs: 2"), 13,
                   "max_epochs: 1, activation_checkpointing: " + wish);
    const Ended ended = run_engine(folder, config);
    REQUIRE(ended.code == 0);
    const auto* started = ended.find<events::RunStarted>();
    CHECK(started->recomputes == (wish == "blocks"));
    CHECK(started->recomputes_why.empty() == (wish != "auto"));
    REQUIRE(ended.find<events::EpochEnded>() != nullptr);
    losses[wish] = ended.find<events::EpochEnded>()->metrics.front().second;
  }
  CHECK(losses["blocks"] == Approx(losses["off"]).epsilon(1e-5));
  CHECK(losses["auto"] == losses["off"]);
}

TEST_CASE("float32 products have the precision that the trainer asks for, the highest by default") {
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

TEST_CASE("images are kept on no CPU: an error that says where to keep them") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("accelerator: cpu, "), 18, "accelerator: auto, ");
  config.replace(config.find("loader:"), 0, "  cache: { mode: device }\n");
  if (device::cuda_devices() > 0 && device::kernels_built()) skip("this machine has a GPU");
  const Ended ended = run_engine(folder, config);
  CHECK(ended.code == 2);
  REQUIRE(ended.find<events::Failed>() != nullptr);
  CHECK_THAT(ended.find<events::Failed>()->message, Contains("write 'mode: decoded'"));
}

TEST_CASE("a GPU that keeps the images gives the losses of one that does not") {
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

TEST_CASE("max_steps alone bounds a run and its schedule") {
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

TEST_CASE("a run starts from the weights of another, and keeps what is frozen") {
  TempFolder first;
  REQUIRE(run_engine(first, kSmall).code == 0);
  const std::string weights =
      "weights: " + (first / "checkpoints/last.safetensors").string() + "\nfreeze: [fc1]\n";
  TempFolder folder;
  const Ended ended = run_engine(folder, kSmall + weights);
  REQUIRE(ended.code == 0);
  const auto* told = ended.find<events::WeightsSet>();
  REQUIRE(told != nullptr);
  CHECK(told->format == "safetensors");
  CHECK(told->loaded.size() == 4);
  CHECK(told->frozen == std::vector<std::string>{"fc1.weight", "fc1.bias"});
  CHECK(ended.find<events::RunStarted>()->trainable_parameters == 16 * 10 + 10);
  const auto tensor = [](const TempFolder& run, const std::string& name) {
    const safetensors::File file(run / "checkpoints/last.safetensors");
    for (const safetensors::View& view : file.tensors()) {
      if (view.name == name)
        return std::string(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
    }
    return std::string();
  };
  CHECK(tensor(folder, "fc1.weight") == tensor(first, "fc1.weight"));
  CHECK(tensor(folder, "fc2.weight") != tensor(first, "fc2.weight"));
}

TEST_CASE("weights that do not fit and patterns that name nothing end a run with their codes") {
  TempFolder first;
  REQUIRE(run_engine(first, kSmall).code == 0);
  const std::string path = (first / "checkpoints/last.safetensors").string();
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("[16]"), 4, "[17]");
  const Ended unfit = run_engine(folder, config + "weights: " + path + "\n");
  CHECK(unfit.code == 10);
  REQUIRE(unfit.find<events::Failed>() != nullptr);
  CHECK_THAT(unfit.find<events::Failed>()->message,
             Contains("fc1.weight is 16x784 in the file and 17x784 in the model"));
  const Ended misspelt = run_engine(folder, std::string(kSmall) + "freeze: [fc3]\n");
  CHECK(misspelt.code == 2);
  CHECK_THAT(misspelt.find<events::Failed>()->message, Contains("'fc3' names no parameter"));
}

TEST_CASE("the engine evaluates what it has trained to the same values, and predicts each sample") {
  TempFolder trained;
  const Ended run = run_engine(trained, kSmall);
  REQUIRE(run.code == 0);
  std::map<std::string, double> expected;
  for (const auto& event : run.events) {
    if (const auto* epoch = std::get_if<events::EpochEnded>(&event))
      for (const auto& [name, value] : epoch->metrics) expected[name] = value;
  }
  for (const auto kind : {spec::TaskKind::evaluate, spec::TaskKind::predict}) {
    TempFolder folder;
    std::ofstream(folder / spec::kTaskFile)
        << spec::dump_task({kind, "val", trained / "checkpoints/last.safetensors"});
    const Ended ended = run_engine(folder, kSmall, 0, spec::name_of(kind));
    REQUIRE(ended.code == 0);
    const auto* told = ended.find<events::Evaluated>();
    REQUIRE(told != nullptr);
    CHECK(told->samples == 100);
    CHECK(told->outputs == 10);
    CHECK_FALSE(told->named);
    REQUIRE(told->metrics.size() == 2);
    for (const auto& [name, value] : told->metrics) CHECK(value == expected.at(name));
    CHECK(std::holds_alternative<events::Finished>(ended.events.back()));
    const auto logits = spec::part_file(folder.path(), "logits", 0);
    REQUIRE(std::filesystem::exists(logits) == (kind == spec::TaskKind::predict));
    if (kind == spec::TaskKind::evaluate) continue;
    CHECK(std::filesystem::file_size(logits) == 100 * 10 * sizeof(float));
    CHECK(std::filesystem::file_size(spec::part_file(folder.path(), "targets", 0)) == 100 * 8);
  }
}

TEST_CASE("a prediction without labels writes no targets, and measures nothing") {
  TempFolder trained;
  REQUIRE(run_engine(trained, kSmall).code == 0);
  TempFolder folder;
  spec::Task task{spec::TaskKind::predict, "val", trained / "checkpoints/last.safetensors"};
  task.learnt = spec::Learnt{spec::Targets::classes, 10, /*labelled=*/false};
  std::ofstream(folder / spec::kTaskFile) << spec::dump_task(task);
  const Ended ended = run_engine(folder, kSmall, 0, "predict");
  REQUIRE(ended.code == 0);
  const auto* told = ended.find<events::Evaluated>();
  REQUIRE(told != nullptr);
  CHECK_FALSE(told->labelled);
  CHECK(told->outputs == 10);
  CHECK(told->metrics.empty());
  CHECK(std::filesystem::file_size(spec::part_file(folder.path(), "logits", 0)) ==
        100 * 10 * sizeof(float));
  CHECK_FALSE(std::filesystem::exists(spec::part_file(folder.path(), "targets", 0)));
}

TEST_CASE("an evaluation takes no weights that differ, not even in the last layer") {
  TempFolder trained;
  REQUIRE(run_engine(trained, kSmall).code == 0);
  TempFolder folder;
  std::ofstream(folder / spec::kTaskFile) << spec::dump_task(
      {spec::TaskKind::evaluate, "val", trained / "checkpoints/last.safetensors"});
  std::string config = kSmall;
  config.replace(config.find("[16]"), 4, "[17]");
  const Ended unfit = run_engine(folder, config, 0, "evaluate");
  CHECK(unfit.code == 10);
  REQUIRE(unfit.find<events::Failed>() != nullptr);
  const std::string message = unfit.find<events::Failed>()->message;
  CHECK_THAT(message, Contains("fc1.weight is 16x784 in the file and 17x784 in the model"));
  CHECK_THAT(message, Contains("fc2.weight is 10x16 in the file and 10x17 in the model"));
  CHECK(message.find("weights.strict") == std::string::npos);
}

TEST_CASE("max_time alone bounds a run") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("max_epochs: 2"), 13, "max_time: 1s");
  const Ended ended = run_engine(folder, config);
  REQUIRE(ended.code == 0);
  CHECK(ended.find<events::RunStarted>()->max_epochs == 0);
  CHECK(ended.find<events::Finished>()->stop_reason == "max_time");
}

TEST_CASE("an error becomes an event, a file and the exit code of its kind") {
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

TEST_CASE("a run folder without a config is a config error") {
  TempFolder folder;
  CHECK(run_engine(folder, "").code == 2);
}

TEST_CASE("a diverging run ends with code 6 and tells its step") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("adam, lr: 0.01"), 14, "sgd, lr: 1.0e+30");
  const Ended ended = run_engine(folder, config);
  CHECK(ended.code == 6);
  REQUIRE(ended.find<events::Failed>() != nullptr);
  CHECK(ended.find<events::Failed>()->phase == events::Phase::train);
  CHECK(ended.find<events::Failed>()->global_step > 0);
}

TEST_CASE("a run that diverges in its last step publishes nothing") {
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("adam, lr: 0.01"), 14, "sgd, lr: 1.0e+30");
  config.replace(config.find("max_epochs: 2"), 13, "max_steps: 1");
  CHECK(run_engine(folder, config).code == 6);
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoints/last.safetensors"));
}

TEST_CASE("a signal ends the run cleanly with its code") {
  TempFolder folder;
  CHECK(run_engine(folder, kSmall, SIGINT).code == 130);
  TempFolder other;
  const Ended ended = run_engine(other, kSmall, SIGTERM);
  CHECK(ended.code == 75);  // a checkpoint of the step is there
  REQUIRE(ended.find<events::Finished>() != nullptr);
  CHECK(ended.find<events::Finished>()->stop_reason == "signal");
  CHECK(ended.find<events::Finished>()->global_step == 1);
}

TEST_CASE("a signal ends the run with the signal's code where nothing is to be saved") {
  TempFolder folder;
  const std::string config =
      std::string(kSmall) + "checkpoint: {save_top_k: 0, save_last: false}\n";
  CHECK(run_engine(folder, config, SIGTERM).code == 143);
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoints"));
}

TEST_CASE("a run that was stopped goes on from its checkpoint to the end of an uninterrupted one") {
  TempFolder whole;
  const Ended expected = run_engine(whole, kSmall);
  REQUIRE(expected.code == 0);
  TempFolder folder;
  REQUIRE(run_engine(folder, kSmall, SIGTERM).code == 75);
  const std::filesystem::path last = std::filesystem::canonical(folder / "checkpoints/last");
  std::ofstream(folder / spec::kTaskFile)
      << spec::dump_task({.kind = spec::TaskKind::train, .resume = last});
  const Ended ended = run_engine(folder, kSmall);
  REQUIRE(ended.code == 0);
  const auto* resumed = ended.find<events::Resumed>();
  REQUIRE(resumed != nullptr);
  CHECK(resumed->global_step == 1);
  CHECK(resumed->step_in_epoch == 1);
  CHECK(resumed->why_not.empty());
  const auto* finished = ended.find<events::Finished>();
  CHECK(finished->parameter_digest == expected.find<events::Finished>()->parameter_digest);
  CHECK(finished->data_digest == expected.find<events::Finished>()->data_digest);
  CHECK(finished->epochs == 2);
}

TEST_CASE("a run that goes on has the threads that it began with, and does not probe") {
  TempFolder folder;
  REQUIRE(run_engine(folder, kSmall, SIGTERM).code == 75);
  const std::filesystem::path last = std::filesystem::canonical(folder / "checkpoints/last");
  std::ofstream(folder / spec::kTaskFile)
      << spec::dump_task({.kind = spec::TaskKind::train, .resume = last});
  const std::string text = kSmall;
  const Ended ended = run_engine(folder, text.substr(0, text.rfind(", num_threads")) + " }\n");
  REQUIRE(ended.code == 0);
  CHECK(ended.find<events::RunStarted>()->num_threads == 1);
  CHECK(ended.find<events::RunStarted>()->num_threads_why == "as the run began");
  CHECK(ended.find<events::Resumed>()->why_not.empty());
}

TEST_CASE("a run that goes on with another GPU or other CUDA libraries is told not to be bitwise") {
  TempFolder folder;
  REQUIRE(run_engine(folder, kSmall, SIGTERM).code == 75);
  const std::filesystem::path last = std::filesystem::canonical(folder / "checkpoints/last");
  checkpoint::Manifest manifest = checkpoint::read_manifest(last);
  CHECK_FALSE(manifest.facts.contains("gpu"));
  manifest.facts["gpu"] = "NVIDIA X";
  manifest.facts["cuda"] = "runtime 13.0";
  container::write(last / checkpoint::kManifestName, {}, checkpoint::to_json(manifest));
  std::ofstream(folder / spec::kTaskFile)
      << spec::dump_task({.kind = spec::TaskKind::train, .resume = last});
  const Ended ended = run_engine(folder, kSmall);
  REQUIRE(ended.code == 0);
  REQUIRE(ended.find<events::Resumed>() != nullptr);
  CHECK_FALSE(ended.find<events::Resumed>()->bitwise);
  CHECK_THAT(ended.find<events::Resumed>()->why_not,
             Contains("the GPU was 'NVIDIA X'") && Contains("the version of CUDA"));
}

TEST_CASE("a checkpoint of a GPU tells which one it was, and its libraries") {
  if (device::cuda_devices() == 0) skip("no GPU");
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("accelerator: cpu"), 16, "accelerator: gpu");
  REQUIRE(run_engine(folder, config).code == 0);
  const auto facts = checkpoint::read_manifest(folder / "checkpoints/last").facts;
  CHECK_THAT(facts.at("gpu"), Contains("compute capability"));
  CHECK_THAT(facts.at("cuda"), Contains("runtime ") && Contains("NCCL 2."));
}

TEST_CASE("an unknown mode is refused") {
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
