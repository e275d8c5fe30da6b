#include "base/error.hpp"
#include "base/safetensors.hpp"
#include "checkpoint/store.hpp"
#include "fake_run.hpp"
#include "support/catch.hpp"
#include "support/manual_clock.hpp"
#include "train/loop/train_loop.hpp"

#include <filesystem>
#include <utility>
#include <vector>

using namespace trainctl;

// Tests when a run ends, and which weights it leaves.

TEST_CASE("early stopping: ends the run with the stopper's reason") {
  FakeRun run;
  run.options.max_epochs = 9;
  run.has_stopper = true;
  run.stopper.stop_in_epoch = 2;
  const events::Finished finished = run.run();
  CHECK(finished.epochs == 3);
  CHECK(finished.stop_reason == "early_stopping");
  REQUIRE(run.all<events::StoppedEarly>().size() == 1);
  CHECK(run.all<events::StoppedEarly>()[0].reason == "enough");
  CHECK(run.all<events::StoppedEarly>()[0].epoch == 2);
}

TEST_CASE(
    "BestWeights: best.safetensors is saved, and restore_best makes the stopper's best the last") {
  // The epochs that improve for the stopper, whose monitor differs from the checkpoint's: the
  // latter improves in epoch 1.
  using Epochs = std::set<std::int64_t>;
  const auto [improves_in, restored] = GENERATE(table<Epochs, std::size_t>({{Epochs{0, 1}, 1},
                                                                            {Epochs{0}, 0},
                                                                            {Epochs{2}, 2},
                                                                            {Epochs{0, 1, 3}, 3},
                                                                            {Epochs{0, 2}, 2},
                                                                            {Epochs{}, 3}}));
  const bool restores = GENERATE(true, false);
  const bool saves_best = GENERATE(true, false);
  FakeRun run;
  run.stopper.improves_in = improves_in;
  run.options.save_best = saves_best;
  run.options.max_epochs = 4;
  run.options.monitor = "val/score";
  run.options.mode = spec::Mode::max;
  run.metric().script = {0.5, 0.9, 0.7, 0.8};
  run.has_stopper = true;
  run.stopper.restores = restores;
  std::vector<at::Tensor> weights;
  run.on_event = [&](const events::Event& event) {
    if (std::holds_alternative<events::EpochEnded>(event))
      weights.push_back(run.model.weight.detach().clone());
  };
  run.run();

  REQUIRE(weights.size() == 4);
  const std::size_t kept = restores ? restored : 3;
  CHECK(torch::equal(run.model.weight, weights[kept]));
  const safetensors::File last(run.folder / "checkpoints/last.safetensors");
  CHECK(std::memcmp(last.tensors()[0].bytes.data(), weights[kept].const_data_ptr(), 18 * 4) == 0);
  CHECK(last.metadata().at("epoch") == std::to_string(kept + 1));
  const auto epochs = run.all<events::EpochEnded>();
  CHECK((epochs[0].improved && epochs[1].improved && !epochs[2].improved && !epochs[3].improved));

  if (!saves_best) return;
  const safetensors::File best(run.folder / "checkpoints/best.safetensors");
  CHECK(best.metadata().at("epoch") == "2");
  CHECK(best.metadata().at("value") == "0.9");
  CHECK(best.tensors()[0].name == "weight");
  CHECK(best.tensors()[2].name == "batches");
  CHECK(std::memcmp(best.tensors()[0].bytes.data(), weights[1].const_data_ptr(), 18 * 4) == 0);
  const auto saved = run.all<events::CheckpointSaved>();
  CHECK(saved.back().path == "checkpoints/last.safetensors");
  CHECK(saved[saved.size() - 2].metric == "val/score");
}

TEST_CASE("checkpoint.every_n_epochs: new best weights are saved at that interval and at the end") {
  FakeRun run;
  run.options.max_epochs = 5;
  run.options.monitor = "val/score";
  run.options.mode = spec::Mode::max;
  run.options.save_every = 2;
  run.options.save_last = false;
  run.metric().script = {0.1, 0.2, 0.3, 0.25, 0.4};
  run.run();
  std::vector<std::int64_t> epochs;
  for (const auto& saved : run.all<events::CheckpointSaved>()) epochs.push_back(saved.epoch);
  CHECK(epochs == std::vector<std::int64_t>{1, 2, 4});
  CHECK_FALSE(std::filesystem::exists(run.folder / "checkpoints/last.safetensors"));
}

TEST_CASE("checkpoint.on_best: saves each new best epoch in addition to the interval") {
  using Saves = std::vector<std::pair<std::int64_t, std::string>>;
  for (const bool on_best : {false, true}) {
    INFO("save_on_best: " << on_best);
    FakeRun run;
    run.options.max_epochs = 5;
    run.options.monitor = "val/score";
    run.options.mode = spec::Mode::max;
    run.options.save_every = 4;
    run.options.save_on_best = on_best;
    run.options.saving = train::Saving{};
    run.options.saving->top_k = -1;
    run.metric().script = {0.1, 0.3, 0.2, 0.4, 0.25};
    run.run();
    Saves saves;  // newest first
    for (const auto& found : checkpoint::Store(run.folder.path() / "checkpoints").list()) {
      REQUIRE(found.manifest.has_value());
      saves.emplace_back(found.moment.epoch, found.manifest->reason);
    }
    Saves expected{{5, "exit"}, {4, "every_n_epochs"}};
    if (on_best) expected.insert(expected.end(), {{2, "best"}, {1, "best"}});
    CHECK(saves == expected);
    std::vector<std::int64_t> weights;
    for (const auto& saved : run.all<events::CheckpointSaved>()) {
      if (saved.path == "checkpoints/best.safetensors") weights.push_back(saved.epoch);
    }
    CHECK(weights == (on_best ? std::vector<std::int64_t>{0, 1, 3} : std::vector<std::int64_t>{3}));
  }
}

TEST_CASE("BestWeights: a run without validation is ranked by the training loss") {
  FakeRun run({.val_samples = 0});
  run.options.max_epochs = 2;
  run.options.save_every = 9;
  run.options.save_on_best = true;
  run.options.saving = train::Saving{};
  run.run();
  const auto all = checkpoint::Store(run.folder.path() / "checkpoints").list();
  REQUIRE_FALSE(all.empty());
  REQUIRE(all.back().manifest.has_value());
  CHECK(all.back().manifest->reason == "best");
  CHECK(all.back().manifest->monitor == "train/loss");
}

TEST_CASE("BestWeights: a NaN score is never the best") {
  FakeRun run;
  run.options.max_epochs = 2;
  run.options.monitor = "val/score";
  run.metric().script = {std::nan(""), 0.3};
  run.run();
  CHECK_FALSE(run.all<events::EpochEnded>()[0].improved);
  CHECK(run.all<events::EpochEnded>()[1].improved);
}

TEST_CASE("max_steps: ends the run within an epoch") {
  FakeRun run;
  run.options.max_epochs = 10;
  run.options.max_steps = 7;
  const events::Finished finished = run.run();
  CHECK(finished.global_step == 7);
  CHECK(finished.epochs == 2);
  CHECK(finished.stop_reason == "max_steps");
  CHECK(run.optimizer.steps == 7);
  CHECK(run.all<events::EpochEnded>()[1].timing.samples == 8);
}

TEST_CASE("max_steps: a run without max_epochs trains up to it") {
  FakeRun run;
  run.options.max_epochs = std::nullopt;
  run.options.max_steps = 58;
  const events::Finished finished = run.run();
  CHECK(finished.global_step == 58);
  CHECK(finished.epochs == 12);
}

TEST_CASE("max_time: ends the run after a step") {
  FakeRun run;
  const auto clock = std::make_shared<ManualClock>();
  run.clock = clock;
  run.loss.after = [clock](const at::Tensor& loss, int) {
    clock->advance(1);
    return loss;
  };
  run.options.max_epochs = 100;
  run.options.max_time_s = 9.5;
  const events::Finished finished = run.run();
  CHECK(finished.stop_reason == "max_time");
  CHECK(finished.global_step < 10);
  CHECK(finished.global_step >= 7);
}

TEST_CASE("TrainLoop: a failed run saves the last weights unless it diverged") {
  const auto [kind, saves_last] =
      GENERATE(table<ErrorKind, bool>({{ErrorKind::data, true}, {ErrorKind::diverged, false}}));
  FakeRun run;
  run.options.max_epochs = 9;
  run.options.save_every = 8;
  run.loss.after = [kind = kind](const at::Tensor& loss, int call) {
    if (call == 16) throw Error(kind, "broken");  // an epoch has 5 steps and 2 validation batches
    return loss;
  };
  CHECK(error_of(run).kind() == kind);
  CHECK(std::filesystem::exists(run.folder / "checkpoints/best.safetensors"));
  CHECK(std::filesystem::exists(run.folder / "checkpoints/last.safetensors") == saves_last);
}

TEST_CASE("TrainLoop: a signal ends the run after the step, without the epoch's validation") {
  FakeRun run;
  run.options.max_epochs = 5;
  run.loss.after = [&run](const at::Tensor& loss, int call) {
    if (call == 8) run.stop_signal = 15;  // an epoch has 5 steps and 2 validation batches
    return loss;
  };
  const events::Finished finished = run.run();
  CHECK(finished.stop_reason == "signal");
  CHECK(finished.global_step == 7);
  CHECK(run.all<events::EpochEnded>().size() == 1);
  CHECK(std::filesystem::exists(run.folder / "checkpoints/last.safetensors"));
}

TEST_CASE("TrainLoop: a signal during validation ends the run at once") {
  FakeRun run;
  run.options.max_epochs = 5;
  run.loss.after = [&run](const at::Tensor& loss, int call) {
    if (call == 5) run.stop_signal = 2;
    return loss;
  };
  CHECK(run.run().stop_reason == "signal");
  CHECK(run.loss.calls == 6);
  CHECK(run.all<events::EpochEnded>().empty());
}

TEST_CASE("BestWeights: a failed write is an error at the end, but only a warning after a signal") {
  for (const bool stops : {false, true}) {
    FakeRun run;
    run.options.max_epochs = 2;
    run.options.saving = train::Saving{};
    for (const char* name : {"best", "last"}) {
      const std::string file = fmt::format("checkpoints/{}.safetensors/in the way", name);
      std::filesystem::create_directories(run.folder / file);
    }
    run.loss.after = [&run, stops](const at::Tensor& loss, int call) {
      if (stops && call == 8) run.stop_signal = 15;
      return loss;
    };
    if (!stops) {
      CHECK(error_of(run).kind() == ErrorKind::resource);
      continue;
    }
    CHECK(run.run().stop_reason == "signal");
    CHECK(run.saved_the_end);
    CHECK(run.all<events::Warning>().size() == 3);  // after the first epoch, and twice at the end
  }
}
