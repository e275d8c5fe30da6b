#include "base/error.hpp"
#include "fake_run.hpp"
#include "support/catch.hpp"
#include "support/rank_group.hpp"

#include <array>
#include <cmath>
#include <string>

using namespace trainctl;

namespace {

struct RankRun {
  events::Finished finished;
  std::vector<events::EpochEnded> epochs;
  std::vector<double> logged;
  at::Tensor weight;
};

using Prepare = std::function<void(FakeRun& run, int rank)>;

std::vector<RankRun> run_ranks(int world, FakeRun::Sizes sizes, const Prepare& prepare) {
  std::vector<RankRun> out(static_cast<std::size_t>(world));
  RankGroup group(world);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    FakeRun run(sizes, std::move(communicator));
    run.options.max_epochs = 3;
    run.options.log_every = 1;
    prepare(run, rank);
    RankRun& mine = out[static_cast<std::size_t>(rank)];
    mine.finished = run.run();
    mine.epochs = run.all<events::EpochEnded>();
    for (const auto& step : run.all<events::StepLogged>()) mine.logged.push_back(step.loss);
    mine.weight = run.model.weight.detach().clone();
  });
  return out;
}

}  // namespace

TEST_CASE("two ranks with batch b train like one with batch 2b, the uneven last batch included") {
  const std::int64_t samples = GENERATE(24, 21, 19);
  FakeRun one({.samples = samples, .batch = 6, .val_samples = 7});
  one.options.max_epochs = 3;
  one.options.log_every = 1;
  const events::Finished alone = one.run();
  const auto steps = one.all<events::StepLogged>();
  const auto epochs = one.all<events::EpochEnded>();

  const auto ranks =
      run_ranks(2, {.samples = samples, .batch = 3, .val_samples = 7}, [](FakeRun& run, int rank) {
        if (rank == 1) run.model.weight.data().add_(5);  // rank 0's weights count
      });
  CHECK(ranks[0].finished.parameter_digest == ranks[1].finished.parameter_digest);
  CHECK(ranks[0].finished.data_digest == alone.data_digest);
  CHECK(ranks[1].finished.data_digest == alone.data_digest);
  CHECK(torch::allclose(ranks[0].weight, one.model.weight, 1e-5, 1e-7));
  REQUIRE(ranks[0].logged.size() == steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    CHECK(ranks[0].logged[i] == Approx(steps[i].loss).epsilon(1e-5));
  REQUIRE(ranks[0].epochs.size() == 3);
  for (std::size_t e = 0; e < 3; ++e) {
    for (const auto& [name, value] : epochs[e].metrics)
      CHECK(value_of(ranks[0].epochs[e], name) == Approx(value).epsilon(1e-5));
    CHECK(ranks[0].epochs[e].timing.samples == samples);
  }
  CHECK(ranks[1].epochs.empty());  // rank 0 speaks
}

TEST_CASE("two ranks mix and train like one, over windows and an uneven last batch") {
  const std::int64_t samples = GENERATE(24, 21, 19);
  const std::int64_t accumulate = GENERATE(1, 2);
  FakeRun one({.samples = samples, .batch = 8, .val_samples = 7, .mixup_alpha = 0.4});
  one.options.max_epochs = 3;
  one.options.log_every = 1;
  one.options.accumulate = accumulate;
  const events::Finished alone = one.run();
  const auto steps = one.all<events::StepLogged>();
  const auto epochs = one.all<events::EpochEnded>();
  const auto ranks =
      run_ranks(2, {.samples = samples, .batch = 4, .val_samples = 7, .mixup_alpha = 0.4},
                [&](FakeRun& run, int) { run.options.accumulate = accumulate; });
  CHECK(ranks[0].finished.data_digest == alone.data_digest);
  CHECK(torch::allclose(ranks[0].weight, one.model.weight, 1e-5, 1e-7));
  REQUIRE(ranks[0].logged.size() == steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    CHECK(ranks[0].logged[i] == Approx(steps[i].loss).epsilon(1e-5));
  for (std::size_t e = 0; e < 3; ++e) {
    for (const auto& [name, value] : epochs[e].metrics)
      CHECK(value_of(ranks[0].epochs[e], name) == Approx(value).epsilon(1e-5));
  }
}

TEST_CASE("three ranks accumulate like one large batch") {
  FakeRun one({.samples = 26, .batch = 12, .val_samples = 0});
  one.options.max_epochs = 3;
  one.run();
  const auto ranks = run_ranks(3, {.samples = 26, .batch = 2, .val_samples = 0},
                               [](FakeRun& run, int) { run.options.accumulate = 2; });
  CHECK(ranks[0].finished.global_step == 9);
  CHECK(torch::allclose(ranks[0].weight, one.model.weight, 1e-5, 1e-7));
  CHECK(torch::equal(ranks[0].weight, ranks[2].weight));
}

TEST_CASE("class weights mean the same over ranks and windows, a rank without rows included") {
  const std::int64_t accumulate = GENERATE(1, 2);
  const at::Tensor weight = torch::tensor({20.0F, 1.0F, 0.0F});
  FakeRun one({.samples = 17, .batch = 8, .val_samples = 9});
  one.loss.class_weight = weight;
  one.options.max_epochs = 3;
  one.run();
  const auto epochs = one.all<events::EpochEnded>();
  const auto ranks = run_ranks(2, {.samples = 17, .batch = 4 / accumulate, .val_samples = 9},
                               [&](FakeRun& run, int) {
                                 run.loss.class_weight = weight;
                                 run.options.accumulate = accumulate;
                               });
  CHECK(torch::allclose(ranks[0].weight, one.model.weight, 1e-5, 1e-7));
  CHECK(torch::equal(ranks[0].weight, ranks[1].weight));
  for (std::size_t e = 0; e < 3; ++e) {
    for (const auto& [name, value] : epochs[e].metrics)
      CHECK(value_of(ranks[0].epochs[e], name) == Approx(value).epsilon(1e-5));
  }
}

TEST_CASE("a rank without rows in the last batch takes part with weight nought") {
  FakeRun one({.samples = 9, .batch = 8, .val_samples = 0});
  one.options.max_epochs = 3;
  one.run();
  const auto ranks =
      run_ranks(2, {.samples = 9, .batch = 4, .val_samples = 0}, [](FakeRun&, int) {});
  CHECK(torch::allclose(ranks[1].weight, one.model.weight, 1e-5, 1e-7));
}

TEST_CASE("every rank ends an epoch with the buffers of rank 0") {
  const auto ranks =
      run_ranks(2, {.samples = 8, .batch = 2, .val_samples = 0}, [](FakeRun& run, int rank) {
        if (rank == 1) run.model.counts = 100;
      });
  CHECK(ranks[0].finished.parameter_digest == ranks[1].finished.parameter_digest);
}

TEST_CASE("averages end with the buffers of rank 0 too: what it validates and saves") {
  const auto ranks = run_ranks(2, {.samples = 16}, [](FakeRun& run, int rank) {
    run.model.counts = rank + 1;
    run.options.averaging = train::Averaging{.decay = 0.5, .every_n_steps = {}, .start_epoch = 0};
  });
  CHECK(ranks[0].finished.parameter_digest == ranks[1].finished.parameter_digest);
}

TEST_CASE("a signal on one rank stops all after the same step") {
  const auto ranks =
      run_ranks(2, {.samples = 80, .batch = 2, .val_samples = 0}, [](FakeRun& run, int rank) {
        if (rank == 0) return;
        run.loss.after = [&run](const at::Tensor& loss, int call) {
          if (call == 4) run.stop_signal = 15;
          return loss;
        };
      });
  CHECK(ranks[0].finished.stop_reason == "signal");
  CHECK(ranks[1].finished.stop_reason == "signal");
  CHECK(ranks[0].finished.global_step == ranks[1].finished.global_step);
  CHECK(ranks[0].finished.global_step <= 7);
}

TEST_CASE("a signal during validation stops all ranks within a few batches") {
  std::array<int, 2> calls{};
  const auto ranks =
      run_ranks(2, {.samples = 8, .batch = 2, .val_samples = 400}, [&](FakeRun& run, int rank) {
        run.loss.after = [&run, &calls, rank](const at::Tensor& loss, int call) {
          calls[static_cast<std::size_t>(rank)] = call;
          if (rank == 1 && call == 10) run.stop_signal = 15;
          return loss;
        };
      });
  CHECK(ranks[0].finished.stop_reason == "signal");
  CHECK(ranks[1].finished.stop_reason == "signal");
  CHECK(calls[0] == calls[1]);
  CHECK(calls[0] <= 13);
}

TEST_CASE("early stopping ends all ranks in the same epoch with the same best weights") {
  const auto ranks =
      run_ranks(2, {.samples = 12, .batch = 2, .val_samples = 6}, [](FakeRun& run, int) {
        run.options.max_epochs = 9;
        run.has_stopper = true;
        run.stopper.stop_in_epoch = 3;
        run.stopper.restores = true;
        run.stopper.improves_in = {0, 1};
        run.options.monitor = "val/score";
        run.metric().script = {3, 1, 2, 2};
      });
  CHECK(ranks[0].finished.epochs == 4);
  CHECK(ranks[1].finished.epochs == 4);
  CHECK(ranks[0].finished.parameter_digest == ranks[1].finished.parameter_digest);
}

TEST_CASE("what is not finite on one rank stops all at the same step, before a weight changes") {
  const bool in_loss = GENERATE(true, false);
  const std::int64_t accumulate = GENERATE(1, 2);
  std::array<at::Tensor, 2> weights;
  std::array<std::string, 2> messages;
  RankGroup group(2);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    FakeRun run({.samples = 48, .batch = 4, .val_samples = 0}, std::move(communicator));
    run.options.accumulate = accumulate;
    at::Tensor before;
    run.loss.after = [&, rank](const at::Tensor& loss, int call) {
      if (call == 2) before = run.model.weight.detach().clone();
      if (rank == 0 || call != 2) return loss;
      return in_loss ? loss * std::nan("") : loss + at::sqrt(loss * 0) * 0;
    };
    try {
      run.run();
    } catch (const Error& error) {
      expect(error.kind() == ErrorKind::diverged, error.what());
      messages[static_cast<std::size_t>(rank)] = error.what();
    }
    expect(torch::equal(before, run.model.weight), "the weights are those before the step");
    weights[static_cast<std::size_t>(rank)] = run.model.weight.detach().clone();
  });
  const std::string step = accumulate == 1 ? "2" : "1";
  CHECK_THAT(messages[0], Contains("the gradient is not finite at step " + step + " of epoch 1"));
  CHECK(messages[1] == messages[0]);
  CHECK(weights[0].isfinite().all().item<bool>());
  CHECK(torch::equal(weights[0], weights[1]));
}

TEST_CASE("a rank that is watched for anomalies stops with all others, and names the layer") {
  const bool in_loss = GENERATE(true, false);
  const std::int64_t accumulate = GENERATE(1, 2);
  std::array<std::string, 2> messages;
  RankGroup group(2);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    FakeRun run({.samples = 48, .batch = 4, .val_samples = 0}, std::move(communicator));
    run.options.accumulate = accumulate;
    run.options.detect_anomaly = true;
    run.loss.after = [in_loss, rank](const at::Tensor& loss, int call) {
      if (rank == 0 || call != 2) return loss;
      return in_loss ? loss * std::nan("") : loss + at::sqrt(loss * 0) * 0;
    };
    try {
      run.run();
    } catch (const Error& error) {
      expect(error.kind() == ErrorKind::diverged, error.what());
      messages[static_cast<std::size_t>(rank)] = error.what();
    }
    expect(run.model.weight.isfinite().all().item<bool>(), "no weight has changed");
  });
  const std::string step = accumulate == 1 ? "2" : "1";
  for (const std::string& message : messages)
    CHECK_THAT(message, Contains("the gradient is not finite at step " + step + " of epoch 1"));
  CHECK_THAT(messages[0], !Contains("the first value"));
  CHECK_THAT(messages[1], Contains("the first value that is not finite: ") &&
                              Contains(in_loss ? "the loss (mul)" : "(SqrtBackward0)"));
}
