#include "base/error.hpp"
#include "rank_runs.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>

using namespace trainctl;

// N ranks with batch size b give the same result as one rank with batch size N * b.

namespace {

constexpr std::int64_t kGlobalBatch = 12;

FakeRun::Sizes sizes_for(int world, FakeRun::Sizes sizes) {
  sizes.batch /= world;
  return sizes;
}

void check_same_run(const std::vector<RankRun>& ranks, const RankRun& alone) {
  for (const RankRun& rank : ranks) {
    CHECK(rank.finished.data_digest == alone.finished.data_digest);  // bit for bit
    CHECK(rank.finished.parameter_digest == ranks[0].finished.parameter_digest);
    CHECK(same_weights(rank, alone));
  }
  check_losses(ranks[0], alone);
  check_metrics(ranks[0], alone);
}

/// Configures the steps like those that a GPU captures, which selects the same kind of GradSync.
void record_steps(FakeRun& run) {
  run.options.cuda_graphs = {};
  run.optimizer.repeatable = true;
  run.optimizer.skips = true;
}

std::vector<std::string> errors_of(int world, const Prepare& prepare) {
  std::vector<std::string> errors(static_cast<std::size_t>(world));
  RankGroup group(world);
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    FakeRun run({}, std::move(communicator));
    prepare(run, rank);
    const Error error = error_of(run);
    expect(error.kind() == ErrorKind::config, error.what());
    errors[static_cast<std::size_t>(rank)] = error.what();
  });
  return errors;
}

}  // namespace

TEST_CASE("data parallel: two to four ranks equal one, also with uneven batches") {
  for (const std::int64_t samples : {48, 43, 37}) {
    const FakeRun::Sizes sizes{.samples = samples, .batch = kGlobalBatch, .val_samples = 7};
    const RankRun alone = run_alone(sizes);
    for (const int world : {2, 3, 4}) {
      CAPTURE(samples, world);
      check_same_run(run_ranks(world, sizes_for(world, sizes), {}), alone);
    }
  }
}

TEST_CASE("data parallel: three and four ranks with mixup equal one") {
  const FakeRun::Sizes sizes{// mixup pairs the rows of a rank
                             .samples = 86,
                             .batch = 2 * kGlobalBatch,
                             .val_samples = 7,
                             .mixup_alpha = 0.4};
  const RankRun alone = run_alone(sizes);
  for (const int world : {3, 4}) {
    CAPTURE(world);
    check_same_run(run_ranks(world, sizes_for(world, sizes), {}), alone);
  }
}

TEST_CASE(
    "data parallel: each sample counts once in training and validation for any number of ranks") {
  for (const int world : {2, 3, 4}) {
    for (const std::int64_t val_samples : {1, 5, 13, 24}) {
      CAPTURE(world, val_samples);
      const auto ranks = run_ranks(
          world,
          sizes_for(world, {.samples = 31, .batch = kGlobalBatch, .val_samples = val_samples}), {});
      REQUIRE(ranks[0].epochs.size() == 3);
      for (const auto& epoch : ranks[0].epochs) {
        CHECK(value_of(epoch, "val/rows") == static_cast<double>(val_samples));  // exactly
        CHECK(value_of(epoch, "train/rows") == 31.0);
      }
    }
  }
}

TEST_CASE(
    "data parallel: three and four ranks stop early in the same epoch with the same best weights") {
  for (const int world : {3, 4}) {
    CAPTURE(world);
    const auto ranks =
        run_ranks(world, {.samples = 24, .batch = 2, .val_samples = 9}, [](FakeRun& run, int) {
          run.options.max_epochs = 9;
          run.has_stopper = true;
          run.stopper.stop_in_epoch = 3;
          run.stopper.restores = true;
          run.stopper.improves_in = {0, 1};
          run.options.monitor = "val/score";
          run.metric().script = {3, 1, 2, 2};
        });
    for (const RankRun& rank : ranks) {
      CHECK(rank.finished.epochs == 4);
      CHECK(rank.finished.stop_reason == "early_stopping");
      CHECK(rank.finished.parameter_digest == ranks[0].finished.parameter_digest);
    }
  }
}

TEST_CASE("data parallel: synchronization for capturable steps is bitwise equal to the default") {
  for (const int world : {2, 3, 4}) {
    CAPTURE(world);
    const FakeRun::Sizes sizes{.samples = 43, .batch = 4, .val_samples = 0};
    const auto plain = run_ranks(world, sizes, {});
    const auto recorded = run_ranks(world, sizes, [](FakeRun& run, int) { record_steps(run); });
    CHECK(recorded[0].finished.parameter_digest == plain[0].finished.parameter_digest);
    CHECK(recorded[0].logged == plain[0].logged);
    CHECK(recorded.back().finished.parameter_digest == plain[0].finished.parameter_digest);
  }
}

TEST_CASE("verify_equal: ranks with different parameter shapes all fail with the same error") {
  const auto errors = errors_of(3, [](FakeRun& run, int rank) {
    if (rank == 2) run.model.bias = torch::zeros({4}, torch::requires_grad());
  });
  for (const std::string& error : errors) {
    CHECK(error == errors.front());
    CHECK_THAT(error, Contains("rank 2 has 'bias: Float [4]' where rank 0 has 'bias: Float [3]'"));
  }
}

TEST_CASE("verify_equal: ranks with different frozen parameters or dtypes fail") {
  const auto frozen = errors_of(2, [](FakeRun& run, int rank) {
    if (rank == 0) run.model.bias.set_requires_grad(false);
  });
  CHECK_THAT(frozen[0], Contains("rank 1 has 'bias: Float [3]' where rank 0 has 'bias: Float [3], "
                                 "not trained'"));
  CHECK(frozen[1] == frozen[0]);
  const auto typed = errors_of(2, [](FakeRun& run, int rank) {
    if (rank == 1) run.model.batches = torch::zeros({}, torch::kInt);
  });
  CHECK_THAT(typed[1], Contains("has 'buffer batches: Int [], not trained' where rank 0 has "
                                "'buffer batches: Long [], not trained'"));
}

TEST_CASE("RankEpoch: each of several ranks reports its times and bytes, and a single rank none") {
  const FakeRun::Sizes sizes{.samples = 24, .batch = 4, .val_samples = 8};
  CHECK(run_alone(sizes).shares.empty());
  const auto ranks = run_ranks(3, sizes, {});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    REQUIRE(ranks[rank].shares.size() == 3);
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      const events::RankEpoch& share = ranks[rank].shares[epoch];
      CHECK(share.rank == static_cast<int>(rank));
      CHECK(share.epoch == static_cast<std::int64_t>(epoch));
      CHECK(share.steps == 2);
      CHECK(share.bucket_bytes == std::vector<std::int64_t>{21 * 4});
      CHECK(share.payload_bytes == 2 * 21 * 4);
      CHECK(share.wire_bytes == 2 * (21 * 4 * 2 * 2 / 3));
      CHECK(share.exposed_s >= 0);
      CHECK(share.overlap >= 0);
      CHECK(share.overlap <= 1);
      CHECK(share.step_s > 0);
      CHECK(share.wall_s >= share.step_s);
    }
  }
}
