#include "train/state/best_weights.hpp"

#include "train/hand_over.hpp"

#include <array>
#include <fstream>
#include <iterator>
#include <string>

using namespace trainctl;

namespace {

using OnFailure = train::BestWeights::OnFailure;

/// Five epochs in which the best by the checkpoint's monitor and the best by the stopper's differ,
/// and then coincide again.
struct BestWeightsRun {
  struct Epoch {
    double monitored;
    bool improved;
  };
  static constexpr std::array<Epoch, 5> kEpochs{
      {{3, true}, {2, true}, {1.5, false}, {5, false}, {1, true}}};

  FakeRun run;
  train::Options options;
  train::Session session = session_of(run);
  train::LoopState state;
  train::Phases phases{session, options, state};
  train::BestWeights best_weights;

  BestWeightsRun() : best_weights(set_up()) {}

  void epochs(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      const auto epoch = static_cast<std::int64_t>(i);
      set_weights(run.model, static_cast<double>(i) + 0.5);
      best_weights.observe({epoch, 4, 4, 4 * (epoch + 1)}, kEpochs.at(i).monitored,
                           {.improved = kEpochs.at(i).improved});
      best_weights.save_due(epoch);
    }
  }

  [[nodiscard]] std::filesystem::path best_path() const {
    return run.folder.path() / "checkpoints/best.safetensors";
  }
  [[nodiscard]] std::string best_file() const {
    std::ifstream file(best_path(), std::ios::binary);
    REQUIRE(file.good());
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  train::BestWeights set_up() {
    run.stopper.restores = true;
    options.save_every = 2;
    return {session, options, phases};
  }
};

}  // namespace

TEST_CASE("BestWeights: restored state continues with the same best and stopper's best weights") {
  BestWeightsRun whole;
  whole.epochs(0, 5);
  whole.best_weights.save_new_best(OnFailure::end);
  for (std::size_t before = 0; before <= 5; ++before) {
    INFO("after " << before << " epochs");
    BestWeightsRun first;
    first.epochs(0, before);
    BestWeightsRun resumed;
    hand_over_values(first.best_weights, resumed.best_weights);
    hand_over_state(first.best_weights, resumed.best_weights);
    CHECK(remember(resumed.best_weights) == remember(first.best_weights));
    resumed.epochs(before, 5);
    resumed.best_weights.save_new_best(OnFailure::end);
    CHECK(resumed.best_file() == whole.best_file());
    for (BestWeightsRun* one : {&first, &resumed}) {
      set_weights(one->run.model, 77);
      one->best_weights.restore_best();
    }
    const double of_first = before == 0 ? 77 : before == 1 ? 0.5 : before == 5 ? 4.5 : 1.5;
    CHECK(first.run.model.weight[0][0].item<double>() == of_first);
    CHECK(resumed.run.model.weight[0][0].item<double>() == 4.5);
  }
}

TEST_CASE(
    "BestWeights: a best whose write was pending in the checkpoint is written after a resume") {
  BestWeightsRun first;
  BestWeightsRun resumed;
  for (BestWeightsRun* one : {&first, &resumed}) one->options.saving.emplace().asynchronous = true;
  first.epochs(0, 2);
  hand_over_values(first.best_weights, resumed.best_weights);
  hand_over_state(first.best_weights, resumed.best_weights);
  for (BestWeightsRun* one : {&first, &resumed}) one->best_weights.observe({2, 4, 4, 12}, 7, {});
  CHECK(remember(resumed.best_weights) == remember(first.best_weights));
  CHECK(resumed.best_file() == first.best_file());
}

TEST_CASE("BestWeights: the stopper's best is restored separately if it differs from the best") {
  BestWeightsRun first;
  first.epochs(0, 4);
  CHECK(first.best_weights.state().size() == 6);
  BestWeightsRun resumed;
  hand_over_values(first.best_weights, resumed.best_weights);
  hand_over_state(first.best_weights, resumed.best_weights);
  set_weights(resumed.run.model, 77);
  resumed.best_weights.restore_best();
  CHECK(resumed.run.model.weight[0][0].item<double>() == 1.5);
  resumed.best_weights.save_new_best(OnFailure::end);
  CHECK_FALSE(exists(resumed.run.folder.path() / "checkpoints/best.safetensors"));  // saved before
}

TEST_CASE(
    "BestWeights: after a validation the heartbeat's phase is load, since ranks wait for rank 0") {
  BestWeightsRun keeping;
  keeping.state.monitored = 3;
  keeping.best_weights.on_validation_end(keeping.state);
  CHECK(keeping.state.report.improved);
  CHECK(keeping.run.heartbeat.phase == static_cast<int>(events::Phase::load));
}

TEST_CASE("BestWeights: a failed synchronous write is reported, and repeated at the next save") {
  BestWeightsRun keeping;
  std::filesystem::create_directories(keeping.best_path() / "in the way");
  keeping.epochs(0, 2);
  const auto warnings = keeping.run.all<events::Warning>();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0].message, Contains("best.safetensors"));
  CHECK_THROWS_AS(keeping.best_weights.save_new_best(OnFailure::end), Error);
  std::filesystem::remove_all(keeping.best_path());
  keeping.best_weights.save_new_best(OnFailure::end);
  CHECK(keeping.run.all<events::CheckpointSaved>().size() == 1);
  CHECK_FALSE(keeping.best_file().empty());
}

TEST_CASE("BestWeights: an asynchronous write is reported once it is settled") {
  BestWeightsRun keeping;
  keeping.options.saving = train::Saving{};
  keeping.epochs(0, 2);
  CHECK(keeping.run.all<events::CheckpointSaved>().empty());
  keeping.epochs(2, 3);  // waits for the pending write, then copies other weights
  const auto saved = keeping.run.all<events::CheckpointSaved>();
  REQUIRE(saved.size() == 1);
  CHECK(saved[0].epoch == 1);
  keeping.best_weights.save_new_best(OnFailure::end);
  CHECK(keeping.run.all<events::CheckpointSaved>().size() == 2);
}

TEST_CASE("BestWeights: a failed asynchronous write is reported once settled, and repeated") {
  BestWeightsRun keeping;
  keeping.options.saving = train::Saving{};
  std::filesystem::create_directories(keeping.best_path() / "in the way");
  keeping.epochs(0, 2);
  keeping.best_weights.settle();
  REQUIRE(keeping.run.all<events::Warning>().size() == 1);
  std::filesystem::remove_all(keeping.best_path());
  keeping.best_weights.save_new_best(OnFailure::end);
  CHECK(keeping.run.all<events::CheckpointSaved>().size() == 1);
}

TEST_CASE("BestWeights: the best value of another monitor or mode is discarded with a warning") {
  for (const bool other_mode : {false, true}) {
    BestWeightsRun first;
    first.epochs(0, 2);
    BestWeightsRun resumed;
    if (other_mode) {
      resumed.options.mode = spec::Mode::max;
    } else {
      resumed.options.monitor = "val/accuracy";
    }
    hand_over_values(first.best_weights, resumed.best_weights);
    hand_over_state(first.best_weights, resumed.best_weights);
    const auto warnings = resumed.run.all<events::Warning>();
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0].message, Contains("train/loss (min)"));
    resumed.best_weights.save_new_best(OnFailure::end);
    CHECK(resumed.run.all<events::CheckpointSaved>().empty());
    const double worse = other_mode ? 0.1 : 99;
    CHECK(resumed.best_weights.observe({2, 4, 4, 12}, worse, {}));
    CHECK_FALSE(resumed.best_weights.observe({3, 4, 4, 16}, worse, {}));
  }
}
