#include "base/error.hpp"
#include "fake_run.hpp"
#include "support/catch.hpp"
#include "train/loop/train_loop.hpp"

#include <filesystem>
#include <limits>
#include <memory>

using namespace trainctl;

// Tests runs that fail because a value is not finite.

namespace {

struct RisesAtStep3 final : stage::Stopper {
  stage::StopDecision observe(std::int64_t /*epoch*/, double /*monitored*/) override { return {}; }
  stage::StopDecision observe_step(std::int64_t step, double /*loss*/) override {
    return {.diverged = step == 3, .reason = "the loss increased"};
  }
  [[nodiscard]] std::string monitor() const override { return "val/loss"; }
  [[nodiscard]] bool restore_best() const override { return false; }
};

}  // namespace

TEST_CASE("NumericsGuard: a non-finite loss ends the run before it changes the weights") {
  FakeRun run;
  run.loss.after = [](const at::Tensor& loss, int call) {
    return call == 3 ? loss * std::nan("") : loss;
  };
  const Error error = error_of(run);
  CHECK(error.kind() == ErrorKind::diverged);
  CHECK_THAT(error.what(), Contains("not finite at step 3 of epoch 1") && Contains("optimizer.lr"));
  CHECK(run.optimizer.steps == 3);
  CHECK(run.model.weight.isfinite().all().item<bool>());
}

TEST_CASE("NumericsGuard: a non-finite gradient ends the run before it changes the weights") {
  // No clipping, clipping by norm, and clipping by value, which hides an infinity.
  const auto [clip, algorithm] =
      GENERATE(table<double, spec::ClipAlgorithm>({{0, spec::ClipAlgorithm::norm},
                                                   {0.5, spec::ClipAlgorithm::norm},
                                                   {0.5, spec::ClipAlgorithm::value}}));
  const double bad = GENERATE(std::numeric_limits<double>::infinity(), std::nan(""));
  const auto prepare = [clip = clip, algorithm = algorithm](FakeRun& run) {
    if (clip > 0) run.options.clip = clip;
    run.options.clip_algorithm = algorithm;
  };
  FakeRun before;
  before.options.max_steps = 3;
  prepare(before);
  before.run();
  FakeRun run;
  prepare(run);
  run.loss.after = [&](const at::Tensor& loss, int call) {
    if (call == 3)
      run.model.weight.register_hook([bad](const at::Tensor& g) {
        at::Tensor corrupted = g.clone();
        corrupted.view({-1})[17] = bad;
        return corrupted;
      });
    return loss;
  };
  const Error error = error_of(run);
  CHECK(error.kind() == ErrorKind::diverged);
  CHECK_THAT(error.what(), Contains("the gradient is not finite at step 3 of epoch 1"));
  CHECK(run.optimizer.steps == 3);
  CHECK(torch::equal(run.model.weight, before.model.weight));
  CHECK(torch::equal(run.model.bias, before.model.bias));
  CHECK_FALSE(std::filesystem::exists(run.folder / "checkpoints/last.safetensors"));
}

TEST_CASE("NumericsGuard: a gradient whose squares overflow is finite") {
  FakeRun run({.samples = 4, .batch = 4, .val_samples = 0});
  run.scheduler.rate = 1e-30;
  run.loss.after = [](const at::Tensor& loss, int) { return loss * 1e30; };
  CHECK_NOTHROW(run.run());
  CHECK(run.optimizer.steps == 1);
}

TEST_CASE(
    "gradient clipping: a gradient whose squares overflow moves the weights by at most the bound") {
  FakeRun run({.samples = 4, .batch = 4, .val_samples = 0});
  run.options.clip = 0.5;
  run.scheduler.rate = 0.25;
  run.loss.after = [](const at::Tensor& loss, int) { return loss * 1e30; };
  const at::Tensor weight = run.model.weight.detach().clone();
  const at::Tensor bias = run.model.bias.detach().clone();
  run.run();
  CHECK(run.optimizer.steps == 1);
  const at::Tensor moved =
      at::cat({(run.model.weight.detach() - weight).flatten(), run.model.bias.detach() - bias});
  CHECK(moved.norm().item<double>() == Approx(0.5 * 0.25).epsilon(1e-4));
}

TEST_CASE("NumericsGuard: a divergence reported by the stopper ends the run at its step") {
  FakeRun run;
  run.options.log_every = 1;
  run.real_stopper = std::make_unique<RisesAtStep3>();
  CHECK_THAT(error_of(run).what(), Contains("the loss increased at step 3 of epoch 1"));
  CHECK(run.heartbeat.global_step == 3);
}

TEST_CASE(
    "NumericsGuard: a non-finite gradient of one accumulated batch ends the run after the step") {
  FakeRun run({.samples = 24, .batch = 4, .val_samples = 0});
  run.options.accumulate = 2;
  run.loss.after = [](const at::Tensor& loss, int call) {
    return call == 2 ? loss + at::sqrt(loss * 0) * 0 : loss;  // finite, but its gradient is not
  };
  const Error error = error_of(run);
  CHECK_THAT(error.what(), Contains("the gradient is not finite at step 1 of epoch 1"));
  CHECK(run.optimizer.steps == 1);
}

TEST_CASE("NumericsGuard: non-finite weights are neither evaluated nor saved") {
  FakeRun run({.samples = 4,
               .batch = 4,
               .val_samples = 8});  // one step: its loss is that of the initial weights
  run.scheduler.rate = std::numeric_limits<double>::infinity();
  const Error error = error_of(run);
  CHECK(error.kind() == ErrorKind::diverged);
  CHECK_THAT(error.what(), Contains("'weight' contains values that are not finite at step 1"));
  CHECK_FALSE(std::filesystem::exists(run.folder / "checkpoints"));
}

TEST_CASE("NumericsGuard: a non-finite validation loss ends the run as diverged") {
  FakeRun run({.samples = 4, .batch = 4, .val_samples = 4});
  run.loss.after = [](const at::Tensor& loss, int call) {
    return call == 1 ? loss * std::nan("") : loss;
  };
  const Error error = error_of(run);
  CHECK(error.kind() == ErrorKind::diverged);
  CHECK_THAT(error.what(), Contains("the validation loss is nan"));
  CHECK(run.heartbeat.phase == static_cast<int>(events::Phase::validate));
  CHECK_FALSE(std::filesystem::exists(run.folder / "checkpoints"));
}

TEST_CASE("detect_anomaly: the error names the operation whose gradient is not finite") {
  FakeRun run;
  run.options.detect_anomaly = true;
  run.loss.after = [](const at::Tensor& loss, int) { return loss + at::sqrt(loss * 0).sum() * 0; };
  const Error error = error_of(run);
  CHECK(error.kind() == ErrorKind::diverged);
  CHECK_THAT(error.what(), Contains("SqrtBackward0"));
}
