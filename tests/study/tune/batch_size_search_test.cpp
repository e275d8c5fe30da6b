#include "study/tune/batch_size_search.hpp"

#include "base/error.hpp"
#include "study/fake_run.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using study::BatchChoice;
using study::BatchResult;
using study::BatchTrial;

namespace {

constexpr std::int64_t kPlenty = 1 << 20;
constexpr double kMb = 1e6;

/// A choice, and the sizes that were tried for it.
struct SearchRecord {
  BatchChoice choice;
  std::vector<std::int64_t> tried;
};

SearchRecord choose(const study::TryBatch& try_batch, double memory_bytes = 0) {
  SearchRecord found;
  found.choice = study::choose_batch(memory_bytes, [&](std::int64_t batch) {
    found.tried.push_back(batch);
    return try_batch(batch);
  });
  return found;
}

BatchResult twice_as_fast(std::int64_t batch) {
  return BatchTrial{.samples_per_s = 100.0 * static_cast<double>(batch),
                    .memory_bytes = 500 * kMb + kMb * static_cast<double>(batch),
                    .max_batch = kPlenty};
}

}  // namespace

TEST_CASE("choose_batch: stops after two sizes that are hardly faster and keeps the smaller one") {
  const SearchRecord found = choose([](std::int64_t batch) -> BatchResult {
    const double rate = batch <= 64 ? 10.0 * static_cast<double>(batch) : 660;
    return BatchTrial{.samples_per_s = rate, .max_batch = kPlenty};
  });
  CHECK(found.choice.batch == 64);
  CHECK(found.tried == std::vector<std::int64_t>{8, 16, 32, 64, 128, 256});
  CHECK(found.choice.why ==
        "larger batches hardly raise throughput: 1.03x with a batch of 128, 1.03x with a batch of "
        "256");
}

TEST_CASE("choose_batch: one slow size does not end the search") {
  const SearchRecord found = choose([](std::int64_t batch) -> BatchResult {
    if (batch > 64) return report::TrialFailure{11, "rank 0 failed: out of memory"};
    return BatchTrial{.samples_per_s = batch == 32 ? 1.0 : 10.0 * static_cast<double>(batch),
                      .max_batch = kPlenty};
  });
  CHECK(found.choice.batch == 64);
  CHECK(found.choice.why == "a batch of 128 does not fit in memory");
}

TEST_CASE("choose_batch: a killed worker means out of memory, other errors are quoted") {
  const auto with = [](const report::TrialFailure& failure) {
    return choose([failure](std::int64_t batch) -> BatchResult {
      if (batch > 8) return failure;
      return twice_as_fast(batch);
    });
  };
  const SearchRecord killed = with({7, "SIGKILL", true});
  CHECK(killed.choice.batch == 8);
  CHECK(killed.choice.why == "a batch of 16 does not fit in memory");
  CHECK_FALSE(killed.choice.failure);
  CHECK(with({11, "the disk is full"}).choice.why ==
        "a batch of 16 does not run: the disk is full");
  CHECK(with({7, "SIGSEGV"}).choice.failure);
}

TEST_CASE("choose_batch: the size grows until it does not fit in memory") {
  const SearchRecord found = choose([](std::int64_t batch) -> BatchResult {
    if (batch > 32) return report::TrialFailure{11, "out of memory"};
    return twice_as_fast(batch);
  });
  CHECK(found.choice.batch == 32);
  CHECK(found.choice.why == "a batch of 64 does not fit in memory");
  CHECK_FALSE(found.choice.failure);
}

TEST_CASE("choose_batch: a size that would exceed the memory is not tried") {
  const SearchRecord found = choose(twice_as_fast, 600 * kMb);
  CHECK(found.choice.batch == 64);
  CHECK(found.tried.back() == 64);
  CHECK_THAT(found.choice.why, Contains("128 would need about"));
}

TEST_CASE("choose_batch: every epoch keeps at least three steps") {
  const SearchRecord found = choose([](std::int64_t batch) -> BatchResult {
    return BatchTrial{.samples_per_s = static_cast<double>(batch), .max_batch = 20};
  });
  CHECK(found.choice.batch == 16);
  CHECK_THAT(found.choice.why, Contains("fewer than 3 steps"));
}

TEST_CASE("choose_batch: another failure, or one of the first size, ends the search") {
  const SearchRecord at_once = choose([](std::int64_t) -> BatchResult {
    return report::TrialFailure{11, "no memory"};
  });
  REQUIRE(at_once.choice.failure);
  CHECK(at_once.choice.failure->exit_code == 11);
  const SearchRecord stopped = choose([](std::int64_t batch) -> BatchResult {
    if (batch > 16) return report::TrialFailure{130, "interrupted"};
    return twice_as_fast(batch);
  });
  REQUIRE(stopped.choice.failure);
  CHECK(stopped.choice.failure->exit_code == 130);
  CHECK(stopped.tried.size() == 3);
}

TEST_CASE("run_batch_trial: the rate is that of the later steps") {
  TempFolder folder;
  std::string script = fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
                       fake_run::emit(events::RunStarted{
                           .world_size = 2, .train_samples = 1200, .global_batch = 32});
  for (const double end : {9.0, 10.0, 12.0})
    script += fake_run::emit(events::StepLogged{.loss = 1, .elapsed_s = end});
  events::EpochEnded epoch{.metrics = {{"train/loss", 1}}};
  epoch.timing.rss_mb = 700;
  script += fake_run::emit(epoch) + fake_run::emit(events::Finished{.stop_reason = "max_steps"});
  const auto trial = std::get<BatchTrial>(
      study::run_batch_trial(fake_run::request(folder, script), steady_clock()));
  CHECK(trial.samples_per_s == Approx(32 / 1.5));
  CHECK(trial.memory_bytes == Approx(1400.0 * (1 << 20)));
  CHECK(trial.max_batch == 200);
  const auto failure = std::get<report::TrialFailure>(
      study::run_batch_trial(fake_run::request(folder, "kill -9 $$\n"), steady_clock()));
  CHECK(failure.exit_code == 7);
  CHECK(failure.killed);
}

TEST_CASE("run_experiment: batch_size=auto without a chosen size is an error") {
  TempFolder folder;
  study::RunRequest request = fake_run::request(folder, fake_run::two_epochs());
  request.loaded.experiment.loader.batch_size.automatic = true;
  const auto no_sinks = [](const fs::path&) { return study::Sinks(); };
  CHECK_THROWS_WITH(study::run_experiment(request, no_sinks, steady_clock()),
                    Contains("loader.batch_size is auto"));
}

TEST_CASE("batch_trial: limits the experiment to a few steps of one size") {
  config::Diagnostics diagnostics;
  const spec::Experiment experiment =
      spec::load_experiment_text(
          "a.yaml",
          "dataset: { train: { type: synthetic_digits } }\nloader: { batch_size: auto }\n"
          "model: { type: linear }\noptimizer: { type: sgd, lr: 0.1 }\n"
          "scheduler: { type: constant, interval: step, warmup: 50 }\n"
          "trainer: { on_divergence: [optimizer.lr=0.01] }\n",
          study::batch_trial(32), diagnostics)
          .experiment;
  CHECK(experiment.loader.batch_size == 32);
  CHECK_FALSE(experiment.loader.batch_size.automatic);
  CHECK(experiment.trainer.max_steps == 20);
  CHECK(experiment.trainer.on_divergence.empty());
}
