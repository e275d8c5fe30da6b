#include "study/resume/config_changes.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "spec/experiment_yaml.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using study::ChangeEffect;
using study::ConfigChange;

namespace {

std::vector<ConfigChange> changes(const std::vector<std::string>& before,
                                  const std::vector<std::string>& now) {
  return study::config_changes(spec::dump_resolved(load_valid(before)), load_valid(now));
}

/// Returns the only change as "path: before -> now".
std::string one_change(const std::vector<std::string>& now) {
  const auto found = changes({}, now);
  REQUIRE(found.size() == 1);
  return found[0].path + ": " + found[0].before + " -> " + found[0].now;
}

std::string error_of(const std::vector<ConfigChange>& found) {
  try {
    study::refuse_changes(found, "epoch=0003-step=000938");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("config_changes: equivalent configs have no changes") {
  CHECK(changes({}, {}).empty());
  CHECK(changes({"optimizer.lr=0.001"}, {"optimizer={type: adam, lr: 1e-3}"}).empty());
  CHECK(changes({}, {"trainer.max_restarts=0"}).empty());
}

TEST_CASE("config_changes: a change has the path and both values") {
  CHECK(one_change({"optimizer.lr=0.01"}) == "optimizer.lr: 0.001 -> 0.01");
  CHECK(one_change({"seed=43"}) == "seed: 0 -> 43");
  CHECK(one_change({"dataset.train.transforms.0.mean=[0.5]"}) ==
        "dataset.train.transforms: [{type: normalize, mean: [0.1307], std: [0.3081]}] -> [{type: "
        "normalize, mean: [0.5], std: [0.3081]}]");
}

TEST_CASE("refuse_changes: the error names every refused value") {
  for (const char* change :
       {"seed=1", "optimizer.lr=0.1", "model={type: mlp, hidden: [7]}", "loss={type: nll}",
        "scheduler={type: step_lr, step_size: 2}", "loader.batch_size=7", "loader.shuffle=false",
        "loader.drop_last=true", "trainer.accumulate_grad_batches=2", "trainer.limit_val_batches=3",
        "dataset.train.samples=500", "early_stopping={type: patience, monitor: val/loss}",
        "trainer.ema={decay: 0.9}", "optimizer=lion", "metrics=[]"}) {
    INFO(change);
    CHECK(error_of(changes({}, {change})) != "accepted");
  }
  const std::string said =
      error_of(changes({}, {"seed=1", "optimizer.lr=0.1", "trainer.max_epochs=9"}));
  CHECK_THAT(said, Contains("epoch=0003-step=000938 was saved with another config") &&
                       Contains("\n  optimizer.lr: 0.001 -> 0.1\n  seed: 0 -> 1\n") &&
                       Contains("omit --resume"));
  CHECK_THAT(said, !Contains("max_epochs"));
}

TEST_CASE("config_changes: ddp and zero1 can be exchanged, ddp and local_sgd cannot") {
  const std::vector<std::string> local{"distributed={type: local_sgd, sync_every: 4}"};
  const auto to_zero = changes({}, {"distributed.type=zero1"});
  REQUIRE(to_zero.size() == 1);
  CHECK(to_zero[0].effect == ChangeEffect::harmless);
  CHECK(error_of(changes({"distributed.type=zero1"}, {})) == "accepted");
  CHECK_THAT(error_of(changes({}, local)), Contains("distributed.type: ddp -> local_sgd"));
  CHECK_THAT(error_of(changes(local, {})), Contains("distributed.type: local_sgd -> ddp"));
  const auto every = changes(local, {"distributed={type: local_sgd, sync_every: 8}"});
  REQUIRE(every.size() == 1);
  CHECK(every[0].effect == ChangeEffect::not_bitwise);
  for (const char* change : {"distributed.compression=bf16", "trainer.sync_batchnorm=true"}) {
    INFO(change);
    CHECK(error_of(changes({}, {change})) != "accepted");
  }
}

TEST_CASE("changes_text: harmless changes are accepted and reported") {
  const auto found = changes({}, {"trainer.max_epochs=9", "loader.num_workers=2", "name=other",
                                  "checkpoint.every_n_steps=10", "loggers=[csv]",
                                  "dataset.cache.mode=none", "trainer.max_restarts=3"});
  CHECK(found.size() == 7);
  CHECK(error_of(found) == "accepted");
  const std::string said = study::changes_text(found);
  CHECK_THAT(said, StartsWith("the config has changed since the checkpoint: ") &&
                       Contains("checkpoint.every_n_steps: ~ -> 10") &&
                       Contains("trainer.max_epochs: 5 -> 9"));
  CHECK_THAT(said, !Contains("bitwise") && !Contains("differ"));
  CHECK(study::changes_text(changes({}, {})).empty());
}

TEST_CASE("changes_text: a change of the summation order is reported as not bitwise") {
  const auto found = changes({}, {"trainer.num_threads=3", "trainer.max_epochs=9"});
  CHECK(error_of(found) == "accepted");
  CHECK_THAT(study::changes_text(found),
             Contains("trainer.num_threads: auto -> 3 (results not bit-identical)") &&
                 EndsWith("differ from those of an unchanged run"));
  CHECK(study::effect_of("trainer.devices") == ChangeEffect::not_bitwise);
}

TEST_CASE("config_changes: a longer run is not bitwise if the schedule depends on its length") {
  const auto text_of_change = [](const std::string& scheduler, const std::string& change) {
    return study::changes_text(changes({scheduler}, {scheduler, change}));
  };
  for (const char* open :
       {"scheduler=one_cycle_lr", "scheduler=cosine_annealing_lr",
        "scheduler={type: linear_lr, total_iters: auto}",
        "scheduler={type: constant, interval: step, warmup: 0.1}",
        "scheduler={type: polynomial_lr, total_iters: auto}", "scheduler=wsd",
        "optimizer={type: muon, groups: [{match: [bias], optimizer: {type: adam, groups: [{match: "
        "['*'], optimizer: sgd, scheduler: wsd}]}}]}",
        "scheduler={type: sequential_lr, schedulers: [{type: step_lr, step_size: 1}, "
        "cosine_annealing_lr], milestones: [2]}"}) {
    INFO(open);
    CHECK_THAT(
        text_of_change(open, "trainer.max_epochs=9"),
        Contains(
            "trainer.max_epochs: 5 -> 9 (results not bit-identical: the learning-rate schedule has "
            "another length)"));
    CHECK_THAT(text_of_change(open, "trainer.max_steps=900"), Contains("not bit-identical"));
    CHECK_THAT(text_of_change(open, "trainer.max_restarts=3"), !Contains("bitwise"));
  }
  for (const char* closed :
       {"scheduler=constant", "scheduler=linear_lr", "scheduler={type: constant, warmup: 2ep}",
        "scheduler={type: step_lr, step_size: 2}",
        "scheduler={type: cosine_annealing_lr, t_max: 4}",
        "scheduler={type: one_cycle_lr, total_steps: 4}",
        "optimizer={type: muon, groups: [{match: [bias], optimizer: sgd, scheduler: linear_lr}]}",
        "scheduler={type: sequential_lr, schedulers: [{type: linear_lr}, constant], milestones: "
        "[2]}"}) {
    INFO(closed);
    CHECK_THAT(text_of_change(closed, "trainer.max_epochs=9"),
               Contains("trainer.max_epochs: 5 -> 9") && !Contains("bitwise"));
  }
}

TEST_CASE("why_not_bitwise: names only the changes that are not bitwise") {
  const auto found = changes({}, {"trainer.num_threads=3", "name=other"});
  CHECK(study::why_not_bitwise(found) == "trainer.num_threads: auto -> 3");
  CHECK(study::why_not_bitwise(changes({}, {"name=other"})).empty());
}

TEST_CASE("config_changes: a change between CPU and GPU is refused") {
  const auto effect = [](const std::string& change, const std::string& device) {
    const auto found =
        study::config_changes(spec::dump_resolved(load_valid({"trainer.accelerator=auto"})),
                              load_valid({"trainer.accelerator=auto", change}), device);
    REQUIRE(found.size() == 1);
    return found[0].effect;
  };
  CHECK(effect("trainer.accelerator=cpu", "cpu") == ChangeEffect::harmless);
  CHECK(effect("trainer.accelerator=cpu", "cuda") == ChangeEffect::refused);
  CHECK(effect("trainer.accelerator=cpu", "") == ChangeEffect::refused);
  if (!read_machine().gpus.empty()) {  // without a GPU such a config is an error
    CHECK(effect("trainer.accelerator=gpu", "cuda") == ChangeEffect::harmless);
    CHECK(effect("trainer.accelerator=gpu", "cpu") == ChangeEffect::refused);
  }
  CHECK(effect("trainer.detect_anomaly=true", "cpu") == ChangeEffect::harmless);
  CHECK(effect("trainer.detect_anomaly=true", "cuda") == ChangeEffect::refused);
  CHECK(effect("trainer.detect_anomaly=true", "") == ChangeEffect::refused);
  const std::string skips = "trainer.skip_nonfinite_steps=3";
  const auto found =
      study::config_changes(spec::dump_resolved(load_valid({skips})),
                            load_valid({skips, "trainer.detect_anomaly=true"}), "cuda");
  REQUIRE(found.size() == 1);
  CHECK(found[0].effect == ChangeEffect::harmless);
}

TEST_CASE("config_changes: channels_last=auto keeps the format of the checkpoint") {
  const auto back = changes({"trainer.channels_last=true"}, {});
  REQUIRE(back.size() == 1);
  CHECK(back[0].effect == ChangeEffect::harmless);
  const auto set = changes({}, {"trainer.channels_last=true"});
  REQUIRE(set.size() == 1);
  CHECK(set[0].effect == ChangeEffect::not_bitwise);
}

TEST_CASE("config_changes: an added or removed section is reported by its values") {
  const auto gone = changes({"early_stopping={type: patience, monitor: val/loss}"}, {});
  REQUIRE_FALSE(gone.empty());
  for (const ConfigChange& change : gone) {
    CHECK_THAT(change.path, StartsWith("early_stopping."));
    CHECK(change.now == "~");
  }
  CHECK(error_of(changes({}, {"profiler={}"})) == "accepted");
}

TEST_CASE("config_changes: a new key is a change only if it is not the default") {
  std::string old = spec::dump_resolved(load_valid({}));
  const std::string key = "  accumulate_grad_batches: 1  # default\n";
  const std::size_t at = old.find(key);
  REQUIRE(at != std::string::npos);
  old.erase(at, key.size());
  CHECK(study::config_changes(old, load_valid({})).empty());
  const auto found = study::config_changes(old, load_valid({"trainer.accumulate_grad_batches=2"}));
  CHECK(found == std::vector{ConfigChange{"trainer.accumulate_grad_batches", "~", "2",
                                          ChangeEffect::refused}});
}

TEST_CASE("effect_of: a rule covers the paths below it, not other paths with the same prefix") {
  CHECK(study::effect_of("checkpoint.every_t") == ChangeEffect::harmless);
  CHECK(study::effect_of("checkpoints.every_t") == ChangeEffect::refused);
  CHECK(study::effect_of("names") == ChangeEffect::refused);
  CHECK(study::effect_of("dataset.train.root") == ChangeEffect::harmless);
  CHECK(study::effect_of("dataset.train.split") == ChangeEffect::refused);
}

TEST_CASE("config_changes: an unreadable config is a checkpoint error") {
  try {
    study::config_changes("a: [", load_valid({}));
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 10);
  }
}
