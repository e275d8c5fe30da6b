#include "base/error.hpp"
#include "rank_runs.hpp"
#include "support/catch.hpp"
#include "train/parallel/stop_consensus.hpp"

#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

/// Has a parameter that the outputs do not depend on.
struct IdleModel final : FakeModel {
  at::Tensor idle = torch::zeros({2}, torch::requires_grad());
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override {
    std::vector<stage::NamedTensor> all = FakeModel::parameters();
    all.push_back({"idle", idle});
    return all;
  }
};

/// The failure of rank 1 in the third batch.
struct Bad {
  bool in_loss = false;
  std::int64_t accumulate = 1;
  bool detect_anomaly = false;
};

struct Diverged {
  std::string message;
  at::Tensor before;  // weights at that batch
  at::Tensor after;   // weights at the end
};

std::array<Diverged, 2> diverged_ranks(const Bad& bad) {
  std::array<Diverged, 2> out;
  RankGroup group(2);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    FakeRun run({.samples = 48, .batch = 4, .val_samples = 0}, std::move(communicator));
    Diverged& mine = out[static_cast<std::size_t>(rank)];
    run.options.accumulate = bad.accumulate;
    run.options.detect_anomaly = bad.detect_anomaly;
    run.loss.after = [&, rank](const at::Tensor& loss, int call) {
      if (call == 2) mine.before = run.model.weight.detach().clone();
      if (rank == 0 || call != 2) return loss;
      return bad.in_loss ? loss * std::nan("") : loss + at::sqrt(loss * 0) * 0;
    };
    const Error error = error_of(run);
    expect(error.kind() == ErrorKind::diverged, error.what());
    mine.message = error.what();
    mine.after = run.model.weight.detach().clone();
  });
  return out;
}

}  // namespace

TEST_CASE("data parallel: two ranks equal one with twice the batch size, also with an uneven end") {
  const std::int64_t samples = GENERATE(24, 21, 19);
  const RankRun alone = run_alone({.samples = samples, .batch = 6, .val_samples = 7});
  const auto ranks =
      run_ranks(2, {.samples = samples, .batch = 3, .val_samples = 7}, [](FakeRun& run, int rank) {
        if (rank == 1) run.model.weight.data().add_(5);  // replaced by rank 0's weights
      });
  CHECK(ranks[0].finished.parameter_digest == ranks[1].finished.parameter_digest);
  CHECK(ranks[0].finished.data_digest == alone.finished.data_digest);
  CHECK(ranks[1].finished.data_digest == alone.finished.data_digest);
  CHECK(same_weights(ranks[0], alone));
  check_losses(ranks[0], alone);
  check_metrics(ranks[0], alone);
  REQUIRE(ranks[0].epochs.size() == 3);
  for (const auto& epoch : ranks[0].epochs) CHECK(epoch.timing.samples == samples);
  CHECK(ranks[1].epochs.empty());  // only rank 0 reports
}

TEST_CASE(
    "data parallel: two ranks with mixup equal one, with accumulation and an uneven last batch") {
  const std::int64_t samples = GENERATE(24, 21, 19);
  const std::int64_t accumulate = GENERATE(1, 2);
  const auto prepare = [&](FakeRun& run, int) { run.options.accumulate = accumulate; };
  const RankRun alone =
      run_alone({.samples = samples, .batch = 8, .val_samples = 7, .mixup_alpha = 0.4}, prepare);
  const auto ranks =
      run_ranks(2, {.samples = samples, .batch = 4, .val_samples = 7, .mixup_alpha = 0.4}, prepare);
  CHECK(ranks[0].finished.data_digest == alone.finished.data_digest);
  CHECK(same_weights(ranks[0], alone));
  check_losses(ranks[0], alone);
  check_metrics(ranks[0], alone);
}

TEST_CASE("data parallel: two ranks that unfreeze a parameter later equal one") {
  const std::int64_t accumulate = GENERATE(1, 2);
  const auto prepare = [&](FakeRun& run, int) {
    run.freeze_weight_until(2);
    run.options.accumulate = accumulate;
  };
  const RankRun alone = run_alone({.samples = 21, .batch = 6, .val_samples = 7}, prepare);
  const auto ranks = run_ranks(2, {.samples = 21, .batch = 3, .val_samples = 7}, prepare);
  CHECK(same_weights(ranks[0], alone));
  CHECK(torch::equal(ranks[0].weight, ranks[1].weight));
  check_losses(ranks[0], alone);
  check_metrics(ranks[0], alone);
}

TEST_CASE("data parallel: three ranks with accumulation equal one rank with a large batch") {
  const RankRun alone = run_alone({.samples = 26, .batch = 12, .val_samples = 0});
  const auto ranks = run_ranks(3, {.samples = 26, .batch = 2, .val_samples = 0},
                               [](FakeRun& run, int) { run.options.accumulate = 2; });
  CHECK(ranks[0].finished.global_step == 9);
  CHECK(same_weights(ranks[0], alone));
  CHECK(torch::equal(ranks[0].weight, ranks[2].weight));
}

TEST_CASE("data parallel: three ranks equal one rank with a last batch of seven rows") {
  const RankRun alone = run_alone({.samples = 19, .batch = 12, .val_samples = 7});
  const auto ranks = run_ranks(3, {.samples = 19, .batch = 4, .val_samples = 7}, {});
  CHECK(ranks[0].finished.data_digest == alone.finished.data_digest);
  for (const RankRun& rank : ranks) CHECK(same_weights(rank, alone));
  check_losses(ranks[0], alone);
  check_metrics(ranks[0], alone);
}

TEST_CASE("data parallel: gradients are not synchronized before the last accumulated batch") {
  std::array<std::vector<at::Tensor>, 2> seen;  // gradients before each batch
  run_ranks(2, {.samples = 24, .batch = 4, .val_samples = 0}, [&](FakeRun& run, int rank) {
    run.options.max_epochs = 1;
    run.options.accumulate = 3;
    run.loss.after = [&run, &seen, rank](const at::Tensor& loss, int) {
      const at::Tensor& gradient = run.model.weight.grad();
      seen[static_cast<std::size_t>(rank)].push_back(gradient.defined() ? gradient.clone()
                                                                        : torch::zeros({3, 6}));
      return loss;
    };
  });
  REQUIRE(seen[0].size() == 3);
  CHECK(torch::equal(seen[0][0], torch::zeros({3, 6})));
  // Each rank has its own gradients so far; averaged ones would be equal.
  CHECK_FALSE(torch::allclose(seen[0][1], seen[1][1]));
  CHECK_FALSE(torch::allclose(seen[0][2], seen[1][2]));
}

TEST_CASE(
    "data parallel: an unused parameter is an error with its name, unless find_unused is set") {
  for (const bool finds : {false, true}) {
    RankGroup group(2);
    const auto thrown = group.run([&](int, std::unique_ptr<dist::Communicator> communicator) {
      FakeRun run({.samples = 16, .batch = 4, .val_samples = 0}, std::move(communicator));
      run.real_model = std::make_unique<IdleModel>();
      run.buckets.find_unused = finds;
      if (finds) {
        expect(run.run().global_step == 2, "two steps");
        return;
      }
      const Error error = error_of(run);
      expect(error.kind() == ErrorKind::config, error.what());
      throw std::runtime_error(error.what());
    });
    for (const std::exception_ptr& each : thrown) {
      REQUIRE(finds == (each == nullptr));
      if (!finds) CHECK_THROWS_WITH(std::rethrow_exception(each), Contains("'idle'"));
    }
  }
}

TEST_CASE("local_sgd: a rank reports all its steps, the bytes and the time of the averaging") {
  const auto ranks =
      run_ranks(2, {.samples = 24, .batch = 4, .val_samples = 0}, [](FakeRun& run, int) {
        run.options.strategy = spec::Strategy::local_sgd;
        run.options.sync_every = 2;
      });
  const std::int64_t bytes = 21 * 4;  // size of weight and bias
  for (const RankRun& rank : ranks) {
    REQUIRE(rank.shares.size() == 3);
    for (const events::RankEpoch& share : rank.shares) {
      CHECK(share.steps == 3);
      CHECK(share.payload_bytes == 2 * bytes);  // after the second and the last step
      CHECK(share.wire_bytes == 2 * bytes);
      CHECK(share.exposed_s > 0);
    }
  }
}

TEST_CASE("class weights: two ranks equal one, with accumulation and with a rank without rows") {
  const std::int64_t accumulate = GENERATE(1, 2);
  const at::Tensor weight = torch::tensor({20.0F, 1.0F, 0.0F});
  const RankRun alone = run_alone({.samples = 17, .batch = 8, .val_samples = 9},
                                  [&](FakeRun& run, int) { run.loss.class_weight = weight; });
  const auto ranks = run_ranks(2, {.samples = 17, .batch = 4 / accumulate, .val_samples = 9},
                               [&](FakeRun& run, int) {
                                 run.loss.class_weight = weight;
                                 run.options.accumulate = accumulate;
                               });
  CHECK(same_weights(ranks[0], alone));
  CHECK(torch::equal(ranks[0].weight, ranks[1].weight));
  check_metrics(ranks[0], alone);
}

TEST_CASE("data parallel: a rank without rows in the last batch does not change the average") {
  const RankRun alone = run_alone({.samples = 9, .batch = 8, .val_samples = 0});
  const auto ranks = run_ranks(2, {.samples = 9, .batch = 4, .val_samples = 0}, {});
  CHECK(same_weights(ranks[1], alone));
}

TEST_CASE("data parallel: every rank ends an epoch with rank 0's buffers") {
  const auto ranks =
      run_ranks(2, {.samples = 8, .batch = 2, .val_samples = 0}, [](FakeRun& run, int rank) {
        if (rank == 1) run.model.counts = 100;
      });
  CHECK(ranks[0].finished.parameter_digest == ranks[1].finished.parameter_digest);
}

TEST_CASE("data parallel: averaged weights end with rank 0's buffers") {
  const auto ranks = run_ranks(2, {.samples = 16}, [](FakeRun& run, int rank) {
    run.model.counts = rank + 1;
    run.options.averaging = train::Averaging{.decay = 0.5, .every_n_steps = {}, .start_epoch = 0};
  });
  CHECK(ranks[0].finished.parameter_digest == ranks[1].finished.parameter_digest);
}

TEST_CASE("data parallel: a signal on one rank stops all ranks after the same step") {
  const auto ranks =
      run_ranks(2, {.samples = 80, .batch = 2, .val_samples = 0}, [](FakeRun& run, int rank) {
        run.clock = std::make_shared<TickingClock>(train::StopConsensus::kEvery_s);  // slow steps
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

TEST_CASE("data parallel: a signal during validation stops all ranks within a few batches") {
  std::array<int, 2> calls{};
  const auto ranks =
      run_ranks(2, {.samples = 8, .batch = 2, .val_samples = 400}, [&](FakeRun& run, int rank) {
        run.clock = std::make_shared<TickingClock>(train::StopConsensus::kEvery_s);  // slow steps
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

TEST_CASE("data parallel: two ranks stop early in the same epoch with the same best weights") {
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

TEST_CASE(
    "data parallel: a non-finite value on one rank stops all ranks before the weights change") {
  const bool in_loss = GENERATE(true, false);
  const std::int64_t accumulate = GENERATE(1, 2);
  const auto ranks = diverged_ranks({.in_loss = in_loss, .accumulate = accumulate});
  const std::string step = accumulate == 1 ? "2" : "1";
  for (const Diverged& rank : ranks) {
    CHECK_THAT(rank.message,
               Contains("the gradient is not finite at step " + step + " of epoch 1"));
    CHECK(rank.after.isfinite().all().item<bool>());
    CHECK(torch::equal(rank.before, rank.after));
  }
  const auto before_the_folder = [](const std::string& message) {
    return message.substr(0, message.find("; see "));
  };
  CHECK(before_the_folder(ranks[1].message) == before_the_folder(ranks[0].message));
  CHECK(torch::equal(ranks[0].after, ranks[1].after));
}

TEST_CASE(
    "detect_anomaly: all ranks stop, and the rank with the non-finite value names the operator") {
  const bool in_loss = GENERATE(true, false);
  const std::int64_t accumulate = GENERATE(1, 2);
  const auto ranks =
      diverged_ranks({.in_loss = in_loss, .accumulate = accumulate, .detect_anomaly = true});
  const std::string step = accumulate == 1 ? "2" : "1";
  for (const Diverged& rank : ranks) {
    CHECK_THAT(rank.message,
               Contains("the gradient is not finite at step " + step + " of epoch 1"));
    CHECK(rank.after.isfinite().all().item<bool>());
  }
  CHECK_THAT(ranks[0].message, !Contains("the first value"));
  CHECK_THAT(ranks[1].message, Contains("the first value that is not finite: ") &&
                                   Contains(in_loss ? "the loss (mul)" : "(SqrtBackward0)"));
}
