#include "study/tune/lr_find.hpp"

#include "base/error.hpp"
#include "spec/options/optimizer.hpp"
#include "spec/options/scheduler.hpp"
#include "spec/options/stopper.hpp"
#include "study/fake_run.hpp"
#include "support/catch.hpp"

#include <cmath>

using namespace trainctl;

namespace {

spec::Experiment swept(const std::string& more, const study::LrRange& range) {
  const std::string text =
      "dataset: { train: { type: synthetic_digits }, val: { type: synthetic_digits } }\n"
      "model: { type: linear }\noptimizer: { type: sgd, lr: 0.1 }\n" +
      more;
  config::Diagnostics diagnostics;
  return spec::load_experiment_text("a.yaml", text, study::lr_sweep(range, {}), diagnostics)
      .experiment;
}

/// Returns the events of a worker whose loss falls, and then `end`.
std::string sweep_of(int steps, const std::string& end) {
  std::string script = fake_run::emit(events::Hello{.host = "here", .device = "cpu"});
  for (int i = 1; i <= steps; ++i)
    script += fake_run::emit(events::StepLogged{
        .global_step = i, .loss = 3.0 - 2.0 / (1 + std::exp(20.0 - i)), .lr = 1e-5 * i});
  return script + end;
}

study::LrFinding found(const TempFolder& folder, const std::string& script,
                       std::int64_t planned = 100) {
  study::RunRequest request = fake_run::request(folder, script);
  request.loaded.experiment.trainer.max_steps = planned;
  return study::find_lr(request, {}, steady_clock());
}

/// Returns the events of a loss that is constant and explodes in the last step.
std::string leap_of(int steps, double loss, const std::string& end) {
  std::string script = fake_run::emit(events::Hello{.host = "here", .device = "cpu"});
  for (int i = 1; i <= steps; ++i)
    script += fake_run::emit(
        events::StepLogged{.global_step = i, .loss = i < steps ? loss : 1e6, .lr = 1e-5 * i});
  return script + end;
}

std::string ended() { return fake_run::emit(events::Finished{.stop_reason = "max_steps"}); }

std::string diverged() {
  return fake_run::emit(events::Failed{.kind = 6, .message = "loss is nan"}) + "exit 6\n";
}

}  // namespace

TEST_CASE("lr_sweep: a second rate keeps the experiment's ratio to the first") {
  const auto with = [](const std::string& muon, const std::vector<std::string>& overrides) {
    config::Diagnostics diagnostics;
    return spec::load_experiment_text("a.yaml",
                                      "dataset: { train: { type: synthetic_digits }, "
                                      "val: { type: synthetic_digits } }\n"
                                      "model: linear\noptimizer: " +
                                          muon + "\n",
                                      overrides, diagnostics)
        .experiment;
  };
  CHECK_FALSE(study::second_rate(with("{ type: muon, lr: 0.02 }", {})));
  CHECK_FALSE(study::second_rate(with("{ type: sgd, lr: 0.02 }", {})));

  spec::optimizer::Muon broken;
  broken.adamw_lr = 1e-3;
  for (const double lr : {0.0, -1.0, std::nan("")}) {
    broken.lr = lr;
    spec::Experiment experiment = with("adam", {});
    experiment.optimizer = config::make_stage("optimizer", "muon", broken);
    CHECK_FALSE(study::second_rate(experiment));
  }

  const std::string both = "{ type: muon, lr: 0.02, adamw_lr: 0.001 }";
  const auto second = study::second_rate(with(both, {}));
  REQUIRE(second);
  CHECK(second->key == "optimizer.adamw_lr");
  CHECK(second->ratio == Approx(0.05));

  const spec::Experiment experiment = with(both, study::lr_sweep({.low = 1e-6}, second));
  const auto& muon = experiment.optimizer.as<spec::optimizer::Muon>();
  CHECK(muon.lr == Approx(1e-6));
  CHECK(*muon.adamw_lr == Approx(5e-8));
  CHECK(study::second_rate(experiment)->ratio == Approx(0.05));
}

TEST_CASE("held_groups: the rate of another optimizer stays constant in the sweep") {
  config::Diagnostics diagnostics;
  const std::string text =
      "dataset: { train: { type: synthetic_digits }, val: { type: synthetic_digits } }\n"
      "model: linear\noptimizer: { type: muon, groups: [{ match: [bias], lr_scale: 2 }, "
      "{ match: [bias], optimizer: sgd }] }\n";
  const auto load = [&](const std::vector<std::string>& overrides) {
    return spec::load_experiment_text("a.yaml", text, overrides, diagnostics).experiment;
  };
  const std::vector<std::string> held = study::held_groups(load({}));
  CHECK(held == std::vector<std::string>{"++optimizer.groups.1.scheduler=constant"});
  const auto swept = load(held);
  CHECK(swept.optimizer.as<spec::optimizer::Muon>().groups[1].scheduler.type == "constant");
}

TEST_CASE("overrides_of: names each rate that was swept") {
  study::LrFinding finding;
  CHECK(study::overrides_of(finding).empty());
  finding.curve.range = report::RateRange{.low = 0.01, .high = 0.02, .suggestion = 0.0123456};
  CHECK(study::overrides_of(finding) == std::vector<std::string>{"optimizer.lr=0.0123"});
  finding.second = study::SecondRate{"optimizer.adamw_lr", 0.05};
  CHECK(study::overrides_of(finding) ==
        std::vector<std::string>{"optimizer.lr=0.0123", "optimizer.adamw_lr=0.000617"});
}

TEST_CASE("lr_sweep: raises the rate from low to high in its steps, for any experiment") {
  const spec::Experiment experiment = swept(
      "scheduler: { type: step_lr, step_size: 2 }\n"
      "early_stopping: { type: patience, monitor: val/loss }\nmetrics: [accuracy]\n"
      "trainer: { max_epochs: 1, ema: { decay: 0.9 }, on_divergence: [seed=2] }\n"
      "checkpoint: { monitor: val/accuracy, mode: max }\n",
      {.low = 1e-4, .high = 1, .steps = 11});
  const auto& scheduler = experiment.scheduler.as<spec::scheduler::ExponentialLr>();
  CHECK(scheduler.interval == spec::scheduler::Interval::step);
  CHECK(1e-4 * std::pow(scheduler.gamma, 10) == Approx(1));
  CHECK(experiment.trainer.max_steps == 11);
  CHECK(experiment.trainer.log_every_n_steps == 1);
  CHECK_FALSE(experiment.trainer.max_epochs);
  CHECK_FALSE(experiment.trainer.ema);
  const auto& stopper = experiment.early_stopping.as<spec::stopper::Divergence>();
  CHECK(stopper.monitor == "train/loss");
  CHECK((stopper.factor == 4 && stopper.smoothing == 0.98 && stopper.patience == 1));
  CHECK((stopper.min_delta == 0.01 && stopper.skip_first == 9));
  CHECK(experiment.trainer.on_divergence.empty());
  CHECK_FALSE(experiment.dataset.val);
  CHECK(experiment.checkpoint.save_top_k == 0);
  CHECK_FALSE(experiment.checkpoint.save_last);
}

TEST_CASE("lr_sweep: an invalid range is an error") {
  for (const study::LrRange range :
       {study::LrRange{.low = 0}, study::LrRange{.low = 1, .high = 0.1}, study::LrRange{.steps = 3},
        study::LrRange{.low = std::nan("")}, study::LrRange{.high = HUGE_VAL}})
    CHECK_THROWS_AS(study::lr_sweep(range, {}), Error);
}

TEST_CASE("lr_find: the losses before divergence count") {
  TempFolder folder;
  const study::LrFinding finding = found(folder, sweep_of(40, diverged()));
  CHECK(finding.run.ending.exit_code == 6);
  CHECK(finding.curve.steps.size() == 40);
  CHECK(finding.tried == 40);
  CHECK(finding.stopped_early);
  CHECK(finding.curve.steepest);
  REQUIRE(finding.curve.diverged_at);
  CHECK(*finding.curve.diverged_at == Approx(4.1e-4).epsilon(0.01));  // the rate after the last one
  CHECK(study::exit_code_of(finding) == 0);
  CHECK_THAT(read_file(finding.run.folder / "lr_find.csv", 1 << 20, ReadFailure::resource),
             Contains("40,0.0004"));
}

TEST_CASE("lr_find: a sweep that a finite loss ends has diverged at its last step") {
  TempFolder folder;
  for (const double loss : {2.0, 0.0, -1.0}) {
    CAPTURE(loss);
    const study::LrFinding finding = found(folder, leap_of(30, loss, diverged()));
    CHECK(finding.tried == 30);
    CHECK(finding.stopped_early);
    REQUIRE(finding.curve.diverged_at);
    CHECK(*finding.curve.diverged_at == Approx(3e-4));
    CHECK(finding.curve.steps.size() == 29);
  }
}

TEST_CASE("lr_find: divergence at the last rate is not an early stop") {
  TempFolder folder;
  CHECK_FALSE(found(folder, leap_of(30, 2, diverged()), 30).stopped_early);
  CHECK(found(folder, leap_of(30, 2, diverged()), 31).stopped_early);
  const study::LrFinding fatal = found(folder, sweep_of(39, diverged()), 40);
  CHECK_FALSE(fatal.stopped_early);
  CHECK(fatal.tried == 39);
  CHECK(*fatal.curve.diverged_at == Approx(4e-4).epsilon(0.01));
  const study::LrFinding whole = found(folder, sweep_of(40, diverged()), 40);
  CHECK_FALSE(whole.stopped_early);
  CHECK_FALSE(whole.curve.diverged_at);
}

TEST_CASE("lr_find: a sweep that diverges while the loss falls suggests no higher rate") {
  TempFolder folder;
  const study::LrFinding finding = found(folder, sweep_of(15, diverged()));
  CHECK(finding.curve.steps.size() == 15);
  REQUIRE(finding.curve.diverged_at);
  CHECK(*finding.curve.diverged_at > 1.5e-4);
  CHECK(finding.curve.remark.empty());
}

TEST_CASE("lr_find: without a suggested rate, the exit code is that of the reason") {
  TempFolder folder;
  CHECK(study::exit_code_of(found(folder, sweep_of(40, ended()))) == 0);
  CHECK_FALSE(found(folder, sweep_of(40, ended())).stopped_early);
  CHECK(study::exit_code_of(found(folder, sweep_of(3, diverged()))) == 6);
  CHECK(study::exit_code_of(found(folder, sweep_of(3, ended()))) == 4);
  CHECK(study::exit_code_of(found(folder, sweep_of(40, "kill -9 $$\n"))) == 7);
}
