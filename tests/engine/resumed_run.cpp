#include "engine/resumed_run.hpp"

#include "base/json_archive.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "train/state/weights.hpp"

using namespace trainctl;

namespace resumed {
namespace {

constexpr std::int64_t kEpochs = 4;

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().contiguous();
  return {static_cast<const char*>(host.const_data_ptr()), host.nbytes()};
}

/// Makes the model a generator of the data set's images, which have 6 pixels.
void make_gan(FakeRun& run, const std::string& loss) {
  const stage::Catalog all = stages::builtin_catalog();
  run.model.weight = (torch::arange(36, torch::kFloat).view({6, 6}) * 0.01).requires_grad_();
  run.model.bias = torch::zeros({6}, torch::requires_grad());
  run.metrics.clear();
  stage::TaskContext context{{{6}, 6, {}, {1, 2, 3}}, at::kCPU, /*seed=*/3};
  context.build_trained = [&](const config::Stage& model, const stage::ModelContext& images,
                              const config::Stage& optimizer) {
    stage::TrainedModel built{all.models.build(model, images), nullptr};
    built.optimizer = all.optimizers.build(optimizer, {built.model->parameters()});
    return built;
  };
  run.task = all.tasks.build(
      stages_test::stage("task", "gan",
                         "{discriminator: {type: mlp, hidden: [4]}, optimizer: {type: adam, lr: "
                         "0.01}, latent_size: 6, r1_weight: 2, loss: " +
                             loss + "}"),
      context);
}

}  // namespace

std::unique_ptr<FakeRun> make(const Variant& variant) {
  auto run = std::make_unique<FakeRun>(FakeRun::Sizes{.samples = 22, .batch = 4});
  if (!variant.gan.empty()) make_gan(*run, variant.gan);
  if (variant.frozen_epochs > 0) run->freeze_weight_until(variant.frozen_epochs);
  const stage::Catalog catalog = stages::builtin_catalog();
  run->real_optimizer = catalog.optimizers.build(
      stages_test::stage("optimizer", variant.optimizer, variant.optimizer_options),
      {run->model.parameters()});
  const std::int64_t steps = (6 + variant.accumulate - 1) / variant.accumulate;
  run->real_scheduler = catalog.schedulers.build(
      stages_test::stage("scheduler", variant.scheduler, variant.scheduler_options),
      {run->real_optimizer->initial_lr(), kEpochs, steps, {}});
  if (variant.stops_early) {
    run->real_stopper = catalog.stoppers.build(
        stages_test::stage("stopper", "patience",
                           "{monitor: val/loss, patience: 1, restore_best: true, min_delta: 0.01}"),
        {});
  }
  run->model.dropout = variant.dropout;
  run->options.max_epochs = kEpochs;
  run->options.log_every = 1;
  run->options.accumulate = variant.accumulate;
  run->options.monitor = "val/loss";
  run->options.saving = train::Saving{};
  if (variant.validation_interval > 0)
    run->options.validation_interval = {.batches = variant.validation_interval};
  if (variant.ema) run->options.averaging = train::Averaging{0.9, {2}, 0};
  return run;
}

void add_events(FakeRun& run, RunTrace& trace) {
  const auto exact = [](double value) { return fmt::format("{:a}", value); };
  for (const auto& event : run.events) {
    if (const auto* step = std::get_if<events::StepLogged>(&event)) {
      trace.reported.push_back(fmt::format("step {} of epoch {}: {} {}", step->global_step,
                                           step->epoch, exact(step->loss), exact(step->lr)));
    } else if (const auto* validated = std::get_if<events::Validated>(&event)) {
      std::string line = fmt::format("validation of epoch {} at {}: {}", validated->epoch,
                                     validated->global_step, validated->improved);
      for (const auto& [name, value] : validated->metrics) line += " " + name + "=" + exact(value);
      trace.reported.push_back(line);
    } else if (const auto* epoch = std::get_if<events::EpochEnded>(&event)) {
      std::string line =
          fmt::format("epoch {} at {}: {} {} {} {}", epoch->epoch, epoch->global_step,
                      exact(epoch->lr), epoch->data_digest, epoch->improved, epoch->timing.samples);
      for (const auto& [name, value] : epoch->metrics) line += " " + name + "=" + exact(value);
      trace.reported.push_back(line);
    }
  }
}

void add_end(FakeRun& run, const events::Finished& finished, RunTrace& trace) {
  add_events(run, trace);
  for (const auto& [name, tensor] : train::weights_of(run.model))
    trace.weights.push_back(name + bytes_of(tensor));
  for (const auto& [name, tensor] : run.optimizer_in_use().state())
    trace.optimizer.push_back(name + bytes_of(tensor));
  trace.optimizer.push_back(to_line(remember(run.optimizer_in_use())));
  if (const stage::TrainedModel* other = run.task->trained()) {
    for (const auto& [name, tensor] : train::weights_of(*other->model))
      trace.weights.push_back("task " + name + bytes_of(tensor));
    for (const auto& [name, tensor] : other->optimizer->state())
      trace.optimizer.push_back("task " + name + bytes_of(tensor));
  }
  trace.finished =
      fmt::format("{} {} {} {} {}", finished.epochs, finished.global_step, finished.data_digest,
                  finished.parameter_digest, finished.stop_reason);
}

RunTrace uninterrupted(const Variant& variant) {
  at::manual_seed(5);
  const auto run = make(variant);
  RunTrace trace;
  add_end(*run, run->run(), trace);
  return trace;
}

void check_same(const RunTrace& trace, const RunTrace& expected) {
  CHECK(trace.reported == expected.reported);
  CHECK(trace.weights == expected.weights);
  CHECK(trace.optimizer == expected.optimizer);
  CHECK(trace.finished == expected.finished);
}

fs::path last_of(const FakeRun& run) {
  return fs::canonical(run.folder.path() / "checkpoints/last");
}

RunTrace interrupted(const Variant& variant, const std::function<void(FakeRun&)>& stops) {
  at::manual_seed(5);
  const auto first = make(variant);
  stops(*first);
  const events::Finished ended = first->run();
  REQUIRE(ended.stop_reason == "signal");
  REQUIRE(first->saved_the_end);
  RunTrace trace;
  add_events(*first, trace);
  at::manual_seed(77);
  const auto second = make(variant);
  second->resume = last_of(*first);
  add_end(*second, second->run(), trace);
  return trace;
}

std::function<void(FakeRun&)> after_step(std::int64_t step) {
  return [step](FakeRun& run) {
    run.on_event = [step, &run](const events::Event& event) {
      const auto* logged = std::get_if<events::StepLogged>(&event);
      if (logged != nullptr && logged->global_step == step) run.stop_signal = 15;
    };
  };
}

std::function<void(FakeRun&)> in_validation(int number) {
  return [number](FakeRun& run) {
    auto calls = std::make_shared<int>(0);
    run.loss.after = [number, calls, &run](const at::Tensor& loss, int) {
      if (run.model.mode == stage::RunMode::evaluate && ++*calls == 2 * number)
        run.stop_signal = 15;
      return loss;
    };
  };
}

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{
      {},
      {.optimizer = "adamw",
       .optimizer_options = "{lr: 0.05}",
       .scheduler = "cosine_annealing_lr",
       .dropout = 0.3},
      {.optimizer = "sgd",
       .optimizer_options = "{lr: 0.3, momentum: 0.9, dampening: 0.1}",
       .scheduler = "reduce_lr_on_plateau",
       .scheduler_options = "{patience: 0, threshold: 0.5}",
       .ema = true},
      {.optimizer = "sgd",
       .optimizer_options = "{lr: 0.05, momentum: 0.9}",
       .scheduler = "one_cycle_lr",
       .scheduler_options = "{cycle_momentum: true}",
       .accumulate = 2},
      {.optimizer = "rmsprop", .optimizer_options = "{lr: 0.01}"},
      {.optimizer = "adam",
       .optimizer_options = "{lr: 0.3}",
       .accumulate = 4,
       .stops_early = true,
       .dropout = 0.5}};
  return all;
}

}  // namespace resumed
