#include "stages/builtin.hpp"
#include "support/catch.hpp"
#include "support/stage.hpp"
#include "train/fake_run.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

using namespace trainctl;

// Compares runs with CUDA graphs on a GPU with the same runs in eager mode.

namespace {

enum class Steps { eager, captured };

struct RunSetup {
  std::string optimizer = "sgd";
  std::string optimizer_options = "{lr: 0.1, momentum: 0.9}";
  std::string loss_options = "{}";
  std::string dropout = "0";
  std::int64_t samples = 40;  // ten batches of four, twenty steps
  double decay = 1;           // factor of the learning rate per step
  std::int64_t accumulate = 1;
  std::optional<train::Averaging> averaging = {};
  spec::Precision precision = spec::Precision::full;
  std::optional<spec::Profiler> profiler = {};
};

/// Decreases with every step.
struct FallingRate final : stage::Scheduler {
  double decay = 1;
  [[nodiscard]] double lr(std::int64_t /*epoch*/, std::int64_t global_step) const override {
    return 0.1 * std::pow(decay, static_cast<double>(global_step));
  }
  void observe(std::int64_t /*epoch*/, double /*monitored*/) override {}
  [[nodiscard]] std::string monitor() const override { return {}; }
};

/// Forwards to another model.
struct Wrapped : stage::Model {
  explicit Wrapped(std::unique_ptr<stage::Model> model) : inner(std::move(model)) {}
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override {
    return inner->parameters();
  }
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override {
    return inner->buffers();
  }
  void set_mode(stage::RunMode mode) override {
    trains = mode == stage::RunMode::train;
    inner->set_mode(mode);
  }
  void to(at::Device device) override { inner->to(device); }
  std::unique_ptr<stage::Model> inner;
  bool trains = false;
};

/// Synchronizes with the device in its forward pass.
struct Synchronizing final : Wrapped {
  using Wrapped::Wrapped;
  at::Tensor forward(const at::Tensor& inputs) override {
    at::Tensor logits = inner->forward(inputs);
    return logits * (logits.sum().item<double>() > 1e30 ? 0 : 1);
  }
};

/// Counts its training passes on the host; a replayed step runs on the device only.
struct Counted final : Wrapped {
  using Wrapped::Wrapped;
  at::Tensor forward(const at::Tensor& inputs) override {
    if (trains) ++passes;
    return inner->forward(inputs);
  }
  std::int64_t passes = 0;
};

/// The events of a run.
struct TrainingResult {
  std::vector<double> losses;  // of each step
  std::vector<double> metrics;
  std::string digest;
  std::vector<std::string> warnings;
};

std::unique_ptr<stage::Model> model_of(const RunSetup& setup) {
  at::manual_seed(5);
  auto model = stages::builtin_catalog().models.build(
      stage_from("model", "sequential",
                 "{layers: [flatten, {type: linear, out_features: 16}, relu, {type: dropout, p: " +
                     setup.dropout + "}, {type: linear}]}"),
      {{1, 2, 3}, 3});
  model->to(at::kCUDA);
  return model;
}

TrainingResult train_with(const RunSetup& setup, Steps steps, stage::Model& model,
                          config::Auto<bool> graphs = {}) {
  const stage::Catalog all = stages::builtin_catalog();
  const at::Device gpu(at::kCUDA, 0);
  FakeRun run({.samples = setup.samples, .batch = 4, .val_samples = 8});
  const auto loss =
      all.losses.build(stage_from("loss", "cross_entropy", setup.loss_options), {3, gpu});
  const auto optimizer = all.optimizers.build(
      stage_from("optimizer", setup.optimizer, setup.optimizer_options), {model.parameters()});
  FallingRate scheduler;
  scheduler.decay = setup.decay;
  std::vector<std::unique_ptr<stage::Metric>> metrics;
  metrics.push_back(all.metrics.build(stage_from("metric", "accuracy", "{}"), {3, gpu}));
  TrainingResult reported;
  const train::Session session{
      .model = model,
      .loss = *loss,
      .optimizer = *optimizer,
      .scheduler = scheduler,
      .metrics = metrics,
      .train = *run.train,
      .validation = run.validation.get(),
      .batch_size = run.sizes.batch,
      .communicator = *run.communicator,
      .clock = *run.clock,
      .emit =
          [&](const events::Event& event) {
            if (const auto* step = std::get_if<events::StepLogged>(&event))
              reported.losses.push_back(step->loss);
            if (const auto* warning = std::get_if<events::Warning>(&event))
              reported.warnings.push_back(warning->message);
            if (const auto* epoch = std::get_if<events::EpochEnded>(&event)) {
              for (const auto& [name, value] : epoch->metrics) reported.metrics.push_back(value);
            }
          },
      .run_dir = run.folder.path()};
  run.options.device = gpu;
  run.options.max_epochs = 2;
  run.options.log_every = 1;
  run.options.clip = 5.0;
  run.options.accumulate = setup.accumulate;
  run.options.averaging = setup.averaging;
  run.options.forward.precision = setup.precision;
  run.options.profiler = setup.profiler;
  if (steps == Steps::captured) run.options.cuda_graphs = graphs;
  at::manual_seed(9);
  train::TrainLoop loop(session, run.options);
  reported.digest = loop.run().parameter_digest;
  return reported;
}

TrainingResult train_with(const RunSetup& setup, Steps steps) {
  const auto model = model_of(setup);
  return train_with(setup, steps, *model);
}

/// Returns the number of batches whose host code runs: profile, warm-up, captured batches, and the
/// windows that are not full.
std::int64_t eager_batches(const RunSetup& setup) {
  constexpr int kEpochs = 2;
  const std::int64_t batches = (setup.samples + 3) / 4;
  const std::int64_t usual = setup.samples / (4 * setup.accumulate) * setup.accumulate;
  const auto& profiler = setup.profiler;
  const std::int64_t profiled = profiler ? profiler->wait + profiler->warmup + profiler->active : 0;
  return (profiled + train::CapturedStep::kWarmUps) * setup.accumulate +
         std::min<std::int64_t>(setup.accumulate, 3) + kEpochs * (batches - usual);
}

void check_equals_eager(const RunSetup& setup) {
  const TrainingResult eager = train_with(setup, Steps::eager);
  Counted model(model_of(setup));
  const TrainingResult captured = train_with(setup, Steps::captured, model);
  CHECK(model.passes == eager_batches(setup));
  CHECK(captured.warnings.size() == eager.warnings.size() + (setup.profiler ? 1 : 0));
  CHECK(captured.losses == eager.losses);
  CHECK(captured.metrics == eager.metrics);
  CHECK(captured.digest == eager.digest);
  CHECK(eager.losses.size() >= 6);
}

void need_gpu() {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
}

}  // namespace

TEST_CASE("CUDA graphs: captured steps are bitwise equal to eager steps for each optimizer",
          "[gpu]") {
  need_gpu();
  for (const auto& [type, options] : std::vector<std::pair<std::string, std::string>>{
           {"sgd", "{lr: 0.1, momentum: 0.9}"},
           {"adam", "{lr: 0.1}"},
           {"adamw", "{lr: 0.1, weight_decay: 0.05}"}}) {
    INFO(type);
    check_equals_eager({.optimizer = type, .optimizer_options = options});
  }
}

TEST_CASE("CUDA graphs: a short last batch is computed eagerly", "[gpu]") {
  need_gpu();
  check_equals_eager({.samples = 42});
}

TEST_CASE("CUDA graphs: each replay uses the learning rate of its step", "[gpu]") {
  need_gpu();
  check_equals_eager({.decay = 0.8});
  CHECK(train_with({.decay = 0.8}, Steps::captured).digest !=
        train_with({}, Steps::captured).digest);
}

TEST_CASE("CUDA graphs: each replay draws new random numbers, as in eager mode", "[gpu]") {
  need_gpu();
  check_equals_eager({.dropout = "0.5", .samples = 42});
}

TEST_CASE("CUDA graphs: losses and metrics with class weights are equal to eager mode", "[gpu]") {
  need_gpu();
  check_equals_eager({.loss_options = "{weight: [1, 2, 3]}", .samples = 42});
}

TEST_CASE("CUDA graphs: accumulated steps are bitwise equal to eager steps", "[gpu]") {
  need_gpu();
  for (const std::int64_t accumulate : {2, 3, 4}) {
    INFO(accumulate);
    check_equals_eager({.dropout = "0.5", .samples = 82, .accumulate = accumulate});
    check_equals_eager({.loss_options = "{weight: [1, 2, 3]}",
                        .samples = 80,
                        .accumulate = accumulate,
                        .averaging = train::Averaging{.decay = 0.9, .every_n_steps = {1}}});
  }
}

TEST_CASE(
    "CUDA graphs: averaged weights and 16-bit precision with a scaler are equal to eager mode",
    "[gpu]") {
  need_gpu();
  for (const auto precision :
       {spec::Precision::full, spec::Precision::bf16_mixed, spec::Precision::fp16_mixed}) {
    check_equals_eager({.averaging = train::Averaging{.decay = 0.9, .every_n_steps = {1}},
                        .precision = precision});
    check_equals_eager({.samples = 82, .accumulate = 2, .precision = precision});
  }
}

TEST_CASE("CUDA graphs: steps are captured after the profile is written", "[gpu]") {
  need_gpu();
  check_equals_eager({.profiler = spec::Profiler{.wait = 1, .warmup = 1, .active = 2}});
}

TEST_CASE("CUDA graphs: a model that synchronizes trains eagerly, with a warning", "[gpu]") {
  need_gpu();
  Synchronizing synchronizing(model_of({.dropout = "0.5"}));
  const TrainingResult reported = train_with({.dropout = "0.5"}, Steps::captured, synchronizing);
  REQUIRE(reported.warnings.size() == 1);
  CHECK_THAT(reported.warnings.front(), Contains("a step could not be captured"));
  Synchronizing other(model_of({.dropout = "0.5"}));
  const TrainingResult eager = train_with({.dropout = "0.5"}, Steps::eager, other);
  CHECK(reported.losses == eager.losses);
  CHECK(reported.digest == eager.digest);
}

TEST_CASE("CUDA graphs: a step that cannot be captured is an error with cuda_graphs=true",
          "[gpu]") {
  need_gpu();
  Synchronizing synchronizing(model_of({}));
  std::string message;
  try {
    (void)train_with({}, Steps::captured, synchronizing, {true});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    message = error.what();
  }
  CHECK_THAT(message, Contains("trainer.cuda_graphs is true, but a step could not be captured"));
  check_equals_eager({});  // another run in this process
}

TEST_CASE("CUDA graphs: a failed capture does not affect the next run", "[gpu]") {
  need_gpu();
  Synchronizing synchronizing(model_of({}));
  (void)train_with({}, Steps::captured, synchronizing);
  check_equals_eager({.dropout = "0.5"});  // another run in this process
}
