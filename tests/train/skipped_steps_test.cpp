#include "device/event.hpp"
#include "support/catch.hpp"
#include "train/fake_run.hpp"

#include <ATen/Context.h>

#include <cmath>
#include <limits>
#include <numeric>

using namespace trainctl;

namespace {

/// Makes the loss non-finite in `count` calls, starting with call number `first`.
std::function<at::Tensor(const at::Tensor&, int)> broken(int first, int count) {
  return [=](const at::Tensor& loss, int call) {
    return call >= first && call < first + count ? loss * std::nan("") : loss;
  };
}

/// Six steps, of which `may_skip` in a row may be skipped; 0: the first such step fails the run.
struct SixSteps : FakeRun {
  explicit SixSteps(std::int64_t may_skip = 0)
      : FakeRun({.samples = 24, .batch = 4, .val_samples = 0}) {
    options.may_skip = may_skip;
  }
};

void move_to_gpu(FakeRun& run) {
  run.model.weight = run.model.weight.detach().cuda().requires_grad_();
  run.model.bias = run.model.bias.detach().cuda().requires_grad_();
  run.optimizer.parameters = {run.model.weight, run.model.bias};
  run.options.device = at::Device(at::kCUDA, 0);
}

std::string divergence_of(FakeRun& run) {
  const Error error = error_of(run);
  CHECK(error.kind() == ErrorKind::diverged);
  return error.what();
}

}  // namespace

TEST_CASE(
    "skip_nonfinite_steps: a non-finite step is skipped, reported and not counted in the loss") {
  SixSteps run(2);
  run.loss.after = broken(2, 2);
  run.run();
  CHECK(run.optimizer.steps == 4);
  CHECK(run.model.weight.isfinite().all().item<bool>());
  const auto epochs = run.all<events::EpochEnded>();
  REQUIRE(epochs.size() == 1);
  CHECK(std::isfinite(value_of(epochs[0], "train/loss")));
  const auto warnings = run.all<events::Warning>();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0].message, Contains("2 of 6 steps were skipped"));
}

TEST_CASE("skip_nonfinite_steps: clipping by norm or by value skips the same steps") {
  for (const auto algorithm : {spec::ClipAlgorithm::norm, spec::ClipAlgorithm::value}) {
    SixSteps run(2);
    run.options.clip = 0.5;
    run.options.clip_algorithm = algorithm;
    run.loss.after = [](const at::Tensor& loss, int call) {
      return call == 2 ? loss + at::sqrt(loss * 0) * 0 : loss;  // finite, but its gradient is not
    };
    run.run();
    CHECK(run.optimizer.steps == 5);
    CHECK(run.model.weight.isfinite().all().item<bool>());
  }
}

TEST_CASE("skip_nonfinite_steps: a step with an infinite loss and a finite gradient is skipped") {
  SixSteps run(2);
  run.loss.after = [](const at::Tensor& loss, int call) {
    return call == 2 ? loss + std::numeric_limits<double>::infinity() : loss;
  };
  run.run();
  CHECK(run.optimizer.steps == 5);
  const auto warnings = run.all<events::Warning>();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0].message, Contains("1 of 6 steps"));
}

TEST_CASE("skip_nonfinite_steps: a skipped step does not change buffers and metrics") {
  SixSteps run(2);
  run.loss.after = broken(2, 2);
  run.run();
  CHECK(run.model.batches.item<int>() == 4);
  const auto epochs = run.all<events::EpochEnded>();
  REQUIRE(epochs.size() == 1);
  CHECK(value_of(epochs[0], "train/rows") == 16);
}

TEST_CASE(
    "skip_nonfinite_steps: if all steps since the last log point were skipped, the loss is NaN") {
  SixSteps run(2);
  run.options.log_every = 2;
  run.loss.after = broken(2, 2);
  run.run();
  const auto logged = run.all<events::StepLogged>();
  REQUIRE(logged.size() == 3);
  CHECK(std::isfinite(logged[0].loss));
  CHECK(std::isnan(logged[1].loss));
  CHECK(std::isfinite(logged[2].loss));
}

TEST_CASE(
    "skip_nonfinite_steps: too many skips in a row end the run with the last finite weights") {
  SixSteps run(2);
  run.loss.after = broken(1, 3);
  const std::string message = divergence_of(run);
  CHECK_THAT(message, Contains("gradients of 3 steps in a row were not finite at step 4"));
  CHECK(run.optimizer.steps == 1);
  CHECK(run.model.weight.isfinite().all().item<bool>());
}

TEST_CASE("NumericsGuard: a non-finite step on a GPU is reported by number at the next log point",
          "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  const auto [log_every, seen] = GENERATE(table<std::int64_t, std::string>({{2, "4"}, {50, "6"}}));
  const bool skips = GENERATE(true, false);
  SixSteps run;
  move_to_gpu(run);
  run.optimizer.skips = skips;
  run.options.log_every = log_every;
  run.loss.after = [](const at::Tensor& loss, int call) {
    return call == 1 ? loss + at::sqrt(loss * 0) * 0 : loss;  // finite, but its gradient is not
  };
  const std::string message = divergence_of(run);
  CHECK_THAT(message,
             Contains("the gradient is not finite at step 1 of epoch 1, detected after step " +
                      seen + "; the weights " +
                      (skips ? "are from before step 1" : "include the update of step 1")));
  CHECK(run.model.weight.isfinite().all().item<bool>() == skips);
  CHECK((run.optimizer.steps == 1) == skips);
}

TEST_CASE("NumericsGuard: a signal between two log points does not hide a divergence on a GPU",
          "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  SixSteps run;
  move_to_gpu(run);
  run.optimizer.skips = true;
  run.loss.after = [&](const at::Tensor& loss, int call) {
    if (call == 3) run.stop_signal = 15;
    return call == 1 ? loss * std::nan("") : loss;
  };
  const std::string message = divergence_of(run);
  CHECK_THAT(message, Contains("not finite at step 1 of epoch 1, detected after step 4"));
  CHECK_FALSE(std::filesystem::exists(run.folder / "checkpoints/last.safetensors"));
}

TEST_CASE("TrainLoop: on a GPU, a step does not wait for the device", "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  FakeRun run({.samples = 400, .batch = 4, .val_samples = 0});
  run.train = std::make_unique<data::Loader>(
      data::Pipeline{.dataset = std::make_shared<FakeImages>(400)},
      data::LoaderOptions{.batch_size = 4, .num_workers = 1, .in_flight = 4});
  move_to_gpu(run);
  run.optimizer.skips = true;
  run.options.log_every = 20;
  run.options.max_epochs = 2;
  const auto waits = run.run().host_waits;
  REQUIRE(waits);
  constexpr std::int64_t kFew = 6;  // in each epoch, at its end
  for (const auto& [place, count] : *waits) {
    INFO(place << ": " << count);
    if (place == device::PendingCopies::kPlace) continue;
    CHECK(count <= 2 * kFew);
    CHECK(place.find("batch") == std::string::npos);
    CHECK(place.find("log point") == std::string::npos);
  }
  CHECK(run.all<events::StepLogged>().size() == 10);
}

TEST_CASE("skip_nonfinite_steps: an accumulated step is skipped as a whole") {
  SixSteps run(1);
  run.options.accumulate = 2;
  run.loss.after = broken(3, 1);
  run.run();
  CHECK(run.optimizer.steps == 2);
  CHECK(run.model.weight.isfinite().all().item<bool>());
}

TEST_CASE("skip_nonfinite_steps: without non-finite steps the weights are bitwise equal") {
  FakeRun plain;
  plain.run();
  FakeRun watched;
  watched.options.may_skip = 1;
  watched.run();
  CHECK(watched.model.weight.equal(plain.model.weight));
  CHECK(watched.all<events::Warning>().empty());
}

TEST_CASE("log_layer_norms: the norms of the layers combine to that of the gradient") {
  SixSteps run;
  run.options.log_every = 3;
  run.options.log_norms = run.options.log_layer_norms = true;
  run.options.clip = 1e-3;
  run.run();
  const auto logged = run.all<events::StepLogged>();
  const auto norms = run.all<events::LayerNorms>();
  REQUIRE(norms.size() == 2);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    CHECK(norms[i].global_step == logged[i].global_step);
    REQUIRE(norms[i].norms.size() == 2);
    CHECK(norms[i].norms[0].first == "weight");
    const double all = std::hypot(norms[i].norms[0].second, norms[i].norms[1].second);
    CHECK(all == Approx(logged[i].grad_norm.value()));
  }
  SixSteps frozen;
  frozen.freeze_weight_until(9);
  frozen.options.log_every = 3;
  frozen.options.log_layer_norms = true;
  frozen.run();
  CHECK(frozen.all<events::LayerNorms>().back().norms.size() == 1);
  CHECK_FALSE(frozen.all<events::StepLogged>().back().grad_norm);
}

TEST_CASE("TensorBoard: histograms of weights and gradients count every value, every N steps") {
  SixSteps run;
  run.options.weights_every = 4;
  run.run();
  const auto all = run.all<events::Distribution>();
  REQUIRE(all.size() == 4);
  CHECK(all[0].tag == "weights/weight");
  CHECK(all[1].tag == "gradients/weight");
  CHECK(all[2].tag == "weights/bias");
  for (const events::Distribution& one : all) {
    CHECK(one.global_step == 4);
    CHECK(one.num == (one.tag.ends_with("/weight") ? 18 : 3));
    CHECK(std::accumulate(one.counts.begin(), one.counts.end(), 0.0) == one.num);
    CHECK(one.min < one.max);
  }
}

TEST_CASE("log_norms: the norms of gradient and weights are logged at the log points") {
  SixSteps run;
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
