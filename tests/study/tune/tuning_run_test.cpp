#include "study/fake_run.hpp"
#include "study/tune/tune_search.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

using namespace trainctl;
using study::TuneLength;
using study::TuneResult;
using study::TuneSample;
using study::TuneScope;

namespace {

using Strings = std::vector<std::string>;

spec::Experiment read(const Strings& overrides) {
  constexpr const char* kExperiment =
      "dataset: { train: { type: synthetic_digits }, val: { type: synthetic_digits } }\n"
      "model: { type: linear }\n"
      "optimizer: { type: sgd, lr: 0.1 }\n"
      "trainer: { max_epochs: 90, limit_train_batches: 0.5 }\n"
      "checkpoint: { monitor: val/loss, every_n_steps: 5 }\n"
      "early_stopping: { type: patience, monitor: val/loss }\n";
  config::Diagnostics diagnostics;
  return spec::load_experiment_text("a.yaml", kExperiment, overrides, diagnostics).experiment;
}

spec::Experiment cut(const TuneLength& length, TuneScope scope, const Strings& before = {}) {
  Strings overrides = before;
  for (const std::string& each : study::tuning_run(read(before), length, scope))
    overrides.push_back(each);
  return read(overrides);
}

/// Returns a run on a machine whose batches all take the same time, plus startup.
TuneResult timed(const TuneLength& length, double batch_s, std::int64_t samples) {
  const std::int64_t whole = (samples + 63) / 64;
  const std::int64_t batches = length.batches > 0 ? std::min(length.batches, whole) : whole;
  const double epoch_s = static_cast<double>(batches) * batch_s;
  TuneSample sample;
  sample.trial.epoch_s.assign(static_cast<std::size_t>(length.epochs), epoch_s);
  sample.trial.total_s = 2 + length.epochs * epoch_s;
  sample.facts.train_samples = samples;
  return sample;
}

study::MeasuredRunLength found_length(double batch_s, std::int64_t samples) {
  const auto result = study::find_run_length(
      read({"trainer.limit_train_batches=1.0"}), 2,
      [&](const TuneLength& length) { return timed(length, batch_s, samples); });
  return std::get<study::MeasuredRunLength>(result);
}

}  // namespace

TEST_CASE("tuning_run: a lean run trains on the first batches without validation and checkpoints") {
  const auto run = cut({.batches = 20, .part = 0.1, .epochs = 3}, TuneScope::lean);
  CHECK(run.trainer.max_epochs == 3);
  CHECK(run.trainer.overfit_batches == 20);
  CHECK_FALSE(run.dataset.val);
  CHECK(run.early_stopping.type.empty());
  CHECK(run.checkpoint.save_top_k == 0);
  CHECK_FALSE(run.checkpoint.save_last);
  CHECK_FALSE(run.checkpoint.every_n_steps);
}

TEST_CASE("tuning_run: a whole run validates and saves, and validation is shortened like epochs") {
  const TuneLength tenth{.batches = 20, .part = 0.1, .epochs = 3};
  const auto run = cut(tenth, TuneScope::whole);
  CHECK(run.dataset.val);
  CHECK(run.checkpoint.monitor == "val/loss");
  CHECK(run.trainer.limit_val_batches.fraction == Approx(0.1));
  CHECK(cut(tenth, TuneScope::whole, {"trainer.limit_val_batches=50"})
            .trainer.limit_val_batches.batches == 5);
  CHECK(cut(tenth, TuneScope::whole, {"trainer.limit_val_batches=2"})
            .trainer.limit_val_batches.batches == 1);
}

TEST_CASE("tuning_run: whole epochs keep the limits of the experiment") {
  const auto run = cut({}, TuneScope::lean);
  CHECK(run.trainer.overfit_batches == 0);
  CHECK(run.trainer.limit_train_batches.fraction == 0.5);
}

TEST_CASE("tuning_run: averages begin in the first epoch, so that their cost is measured") {
  const auto run = cut({}, TuneScope::lean, {"+trainer.ema={start_epoch: 50}"});
  REQUIRE(run.trainer.ema);
  CHECK(run.trainer.ema->start_epoch == 0);
}

TEST_CASE("without_schedule: replaces a schedule longer than the run with a constant rate") {
  const Strings cut_down =
      study::without_schedule(study::tuning_run(read({}), {}, TuneScope::lean));
  CHECK(cut_down.back() == "++scheduler=constant");
}

TEST_CASE("find_run_length: lengthens runs until an epoch reaches its target duration") {
  const auto found = found_length(0.001, 6'400'000);
  CHECK(std::abs(found.length.batches - 2000) <= 1);
  CHECK(found.length.part == Approx(0.02).epsilon(0.01));
  CHECK(found.length.epochs == 3);
  CHECK(found.runs > 1);
  CHECK(found.run_s == Approx(2 + 3 * 2.0).epsilon(0.01));
}

TEST_CASE("find_run_length: an epoch shorter than the target is used completely") {
  const auto found = found_length(0.001, 6400);
  CHECK(found.length.batches == 0);
  CHECK(found.length.part == 1);
  CHECK(found.run_s == Approx(2 + 3 * 0.1));
}

TEST_CASE("find_run_length: slow batches make short epochs of at least a few batches") {
  const auto found = found_length(5, 6'400'000);
  CHECK(found.length.batches == 4);
  CHECK(found.runs == 1);
}

TEST_CASE("find_run_length: the batches of one step stay together") {
  const auto experiment =
      read({"trainer.limit_train_batches=1.0", "trainer.accumulate_grad_batches=3"});
  const auto result = study::find_run_length(experiment, 2, [](const TuneLength& length) {
    CHECK(length.batches % 3 == 0);
    return timed(length, 0.1, 6'400'000);
  });
  CHECK(std::get<study::MeasuredRunLength>(result).length.batches % 3 == 0);
}

TEST_CASE("find_run_length: returns the failure of a run") {
  const auto result = study::find_run_length(read({}), 2, [](const TuneLength&) -> TuneResult {
    return report::TrialFailure{9, "no data"};
  });
  CHECK(std::get<report::TrialFailure>(result).message == "no data");
}

TEST_CASE("epoch_target_s: is shorter for a smaller budget, within limits") {
  CHECK(study::epoch_target_s(300) == Approx(300.0 / 180));
  CHECK(study::epoch_target_s(1) == 0.5);
  CHECK(study::epoch_target_s(1e6) == 5);
}

TEST_CASE("run_tuning: returns the trial, the verdict and the values that auto chose") {
  TempFolder folder;
  const TuneResult result =
      study::run_tuning(fake_run::request(folder, fake_run::two_epochs()), {}, steady_clock());
  const auto& sample = std::get<TuneSample>(result);
  CHECK(sample.trial.data_digest == "abc");
  CHECK(sample.sample_s > 0);
  CHECK(sample.facts.num_workers == 4);
  CHECK(sample.facts.num_threads == 3);
  CHECK_FALSE(sample.verdict.name.empty());
}

TEST_CASE("run_tuning: a killed run is a failure with exit code, cause and folder") {
  TempFolder folder;
  const auto failure = std::get<report::TrialFailure>(
      study::run_tuning(fake_run::request(folder, "kill -9 $$\n"), {}, steady_clock()));
  CHECK(failure.exit_code == 7);
  CHECK_THAT(failure.message, Contains("SIGKILL") && Contains((folder / "runs").string()));
  const auto silent = std::get<report::TrialFailure>(study::run_tuning(
      fake_run::request(folder, fake_run::emit(events::Finished{})), {}, steady_clock()));
  CHECK_THAT(silent.message, Contains("see "));
}
