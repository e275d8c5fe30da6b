#include "support/catch.hpp"
#include "train/fake_run.hpp"

using namespace trainctl;

namespace {

/// The loss is not finite in the calls from `first` on, as many as `count`.
std::function<at::Tensor(const at::Tensor&, int)> broken(int first, int count) {
  return [=](const at::Tensor& loss, int call) {
    return call >= first && call < first + count ? loss * std::nan("") : loss;
  };
}

}  // namespace

TEST_CASE("a step that is not finite is left out, told, and not counted in the loss") {
  FakeRun run({.samples = 24, .batch = 4, .val_samples = 0});
  run.options.may_skip = 2;
  run.loss.after = broken(2, 2);
  run.run();
  CHECK(run.optimizer.steps == 4);
  CHECK(run.model.weight.isfinite().all().item<bool>());
  const auto epochs = run.all<events::EpochEnded>();
  REQUIRE(epochs.size() == 1);
  CHECK(std::isfinite(value_of(epochs[0], "train/loss")));
  const auto warnings = run.all<events::Warning>();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0].message, Contains("2 of 6 steps were left out"));
}

TEST_CASE("a log point whose losses were all left out has no loss, and stops nothing") {
  FakeRun run({.samples = 24, .batch = 4, .val_samples = 0});
  run.options.may_skip = 2;
  run.options.log_every = 2;
  run.loss.after = broken(2, 2);
  run.run();
  const auto logged = run.all<events::StepLogged>();
  REQUIRE(logged.size() == 3);
  CHECK(std::isfinite(logged[0].loss));
  CHECK(std::isnan(logged[1].loss));
  CHECK(std::isfinite(logged[2].loss));
}

TEST_CASE("more such steps in a row than allowed end the run, with the last good weights") {
  FakeRun run({.samples = 24, .batch = 4, .val_samples = 0});
  run.options.may_skip = 2;
  run.loss.after = broken(1, 3);
  std::string message;
  try {
    run.run();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::diverged);
    message = error.what();
  }
  CHECK_THAT(message, Contains("gradients of 3 steps in a row were not finite at step 4"));
  CHECK(run.optimizer.steps == 1);
  CHECK(run.model.weight.isfinite().all().item<bool>());
}

TEST_CASE("an accumulated step is left out as a whole") {
  FakeRun run({.samples = 24, .batch = 4, .val_samples = 0});
  run.options.may_skip = 1;
  run.options.accumulate = 2;
  run.loss.after = broken(3, 1);
  run.run();
  CHECK(run.optimizer.steps == 2);
  CHECK(run.model.weight.isfinite().all().item<bool>());
}

TEST_CASE("without such steps the weights have the same bits as without the watch") {
  FakeRun plain;
  plain.run();
  FakeRun watched;
  watched.options.may_skip = 1;
  watched.run();
  CHECK(watched.model.weight.equal(plain.model.weight));
  CHECK(watched.all<events::Warning>().empty());
}

TEST_CASE("the lengths of gradient and weights are logged at the log points") {
  FakeRun run({.samples = 24, .batch = 4, .val_samples = 0});
  run.options.log_every = 3;
  run.options.log_norms = true;
  run.options.clip = 1e-3;
  run.run();
  const auto logged = run.all<events::StepLogged>();
  REQUIRE(logged.size() == 2);
  for (const events::StepLogged& step : logged) {
    REQUIRE(step.grad_norm.has_value());
    CHECK(*step.grad_norm > 1e-2);  // before clipping
    REQUIRE(step.param_norm.has_value());
  }
  FakeRun quiet;
  quiet.options.log_every = 1;
  quiet.run();
  CHECK_FALSE(quiet.all<events::StepLogged>().front().grad_norm.has_value());
}
