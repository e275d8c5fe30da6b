#include "base/clock.hpp"
#include "base/machine.hpp"
#include "config/fields.hpp"
#include "experiment_yaml.hpp"
#include "spec/monitor.hpp"
#include "support/catch.hpp"

namespace spec = trainctl::spec;
using Catch::Matchers::Equals;

TEST_CASE("a sound experiment has no problems", "[spec]") {
  CHECK_THAT(problems_of({}), Equals(""));
}

TEST_CASE("a monitor names a value that will exist, with a suggestion", "[spec]") {
  const std::string stop = "early_stopping={type: patience, monitor: ";
  CHECK_THAT(problems_of({stop + "val/accuracy}"}), Equals(""));
  CHECK_THAT(problems_of({stop + "val_loss}"}),
             Contains("'early_stopping.monitor' names 'val_loss'") &&
                 Contains("did you mean 'val/loss'?"));
  CHECK_THAT(problems_of({stop + "val/acc}"}), Contains("did you mean 'val/accuracy'?"));
  CHECK_THAT(problems_of({stop + "val/f1}"}), Contains("no such value is measured"));
  CHECK_THAT(problems_of({"checkpoint.monitor=val/top_5_accuracy"}),
             Contains("'checkpoint.monitor' names 'val/top_5_accuracy'"));
  CHECK_THAT(problems_of({"checkpoint.monitor=val/top_5_accuracy", "metrics=[top_k_accuracy]"}),
             Equals(""));
}

TEST_CASE("a monitor of val/... needs a validation", "[spec]") {
  CHECK_THAT(
      problems_of({"early_stopping=patience", "~dataset.val"}),
      Contains("'early_stopping.monitor' names 'val/loss', but this run has no validation") &&
          Contains("add 'dataset.val'"));
  CHECK_THAT(problems_of({"scheduler=reduce_lr_on_plateau", "trainer.limit_val_batches=0"}),
             Contains("'scheduler.monitor' names 'val/loss'") &&
                 Contains("raise 'trainer.limit_val_batches'"));
  CHECK_THAT(problems_of({"early_stopping={type: patience, monitor: train/loss}", "~dataset.val"}),
             Equals(""));
}

TEST_CASE("a mode that does not fit its monitor is an error", "[spec]") {
  CHECK_THAT(problems_of({"checkpoint={monitor: val/accuracy, mode: min}"}),
             Contains("mode 'min' does not fit 'val/accuracy': higher is better"));
  CHECK_THAT(problems_of({"checkpoint={monitor: val/loss, mode: max}"}),
             Contains("lower is better"));
  CHECK(problems_of({"checkpoint={monitor: val/accuracy, mode: auto}"}).empty());
}

TEST_CASE(
    "without a monitor of its own the checkpoint's mode is held against early stopping's, else the "
    "loss",
    "[spec]") {
  CHECK_THAT(problems_of({"checkpoint.mode=max"}), Contains("mode 'max' does not fit 'val/loss'"));
  CHECK_THAT(problems_of({"checkpoint.mode=min",
                          "early_stopping={type: patience, monitor: train/accuracy}"}),
             Contains("mode 'min' does not fit 'train/accuracy'"));
  CHECK_THAT(
      problems_of({"checkpoint.mode=min", "early_stopping={type: patience, monitor: val/acc}"}),
      Contains("1 error in"));
  CHECK(spec::checkpoint_monitor(load_sound({"~dataset.val"}).experiment) == "train/loss");
}

TEST_CASE("the automatic mode goes by the monitor's name", "[spec]") {
  CHECK(spec::mode_for("val/loss") == spec::Mode::min);
  CHECK(spec::mode_for("train/top_5_accuracy") == spec::Mode::max);
  CHECK(spec::resolve_mode({spec::Mode::max}, "val/loss") == spec::Mode::max);
  CHECK(spec::resolve_mode({}, "val/loss") == spec::Mode::min);
}

TEST_CASE("an unreadable metric raises no false alarm about a monitor", "[spec]") {
  const std::string problems =
      problems_of({"metrics=[acuracy]", "checkpoint.monitor=val/accuracy"});
  CHECK_THAT(problems, Contains("unknown metric 'acuracy'"));
  CHECK_THAT(problems, !Contains("monitor"));
}

TEST_CASE("an unreadable metric hides no monitor that no metric could provide", "[spec]") {
  const auto problems = [](const std::string& monitor) {
    return problems_of({"metrics=[acuracy, dice]", "checkpoint.monitor=" + monitor});
  };
  CHECK_THAT(problems("val/acc"),
             Contains("'checkpoint.monitor' names 'val/acc'") && Contains("3 errors"));
  CHECK_THAT(problems("val_loss"), Contains("did you mean 'val/loss'?"));
  CHECK_THAT(problems("val/dice"), Contains("2 errors"));
  CHECK_THAT(problems("train/top_5_accuracy"), Contains("2 errors"));
}

TEST_CASE("class weights weigh at least one class", "[spec]") {
  CHECK_THAT(problems_of({"loss={type: cross_entropy, weight: [0, 0]}"}),
             Contains("the loss weighs no class"));
  CHECK(problems_of({"loss={type: cross_entropy, weight: [0, 1]}"}).empty());
}

TEST_CASE("nll with a model that gives logits is warned of", "[spec]") {
  const char* told = "nll takes log-probabilities, and this model gives logits";
  CHECK_THAT(problems_of({"loss=nll"}), Contains(told));
  CHECK_THAT(problems_of({"loss=nll", "model={type: sequential, layers: [flatten, linear]}"}),
             Contains(told));
  CHECK(
      problems_of({"loss=nll", "model={type: sequential, layers: [flatten, linear, log_softmax]}"})
          .empty());
}

TEST_CASE("only a loss that takes mixed labels goes with batch_transforms", "[spec]") {
  const std::string mixed = "+dataset.train.batch_transforms=[mixup]";
  CHECK_THAT(problems_of({"loss=mse", mixed}),
             Contains("loss=mse") && Contains("the loss 'mse' does not take the mixed labels") &&
                 Contains("choose loss cross_entropy, nll or bce_with_logits, or remove "
                          "'batch_transforms'"));
  CHECK(problems_of({mixed}).empty());
  CHECK_THAT(problems_of({"loss=nll", mixed}), !Contains("mixed labels"));
  CHECK(problems_of({"loss=bce_with_logits", mixed}).empty());
  CHECK_THAT(problems_of({"loss=focal", mixed}),
             Contains("'focal' does not take the mixed labels"));
  CHECK(problems_of({"loss=mse"}).empty());
  CHECK_THAT(problems_of({"loss=msee", mixed}), !Contains("does not take the mixed labels"));
  CHECK_THAT(problems_of({"+dataset.val.batch_transforms=[mixup]"}), Contains("unknown key"));
}

TEST_CASE("tables of both splits are standardized alike, or a warning tells", "[spec]") {
  const auto problems = [](const std::string& val_options) {
    const std::string table = "{type: csv, path: a.csv, label: y, ";
    return problems_of({"dataset.train=" + table + "standardize: true, statistics_from: a.csv}",
                        "dataset.val=" + table + val_options + "}"});
  };
  const auto says = Contains("validation rows are not standardized as the training rows are");
  CHECK_THAT(problems("rows: 2"), says);
  CHECK_THAT(problems("standardize: true, statistics_from: b.csv"), says);
  CHECK_THAT(problems("standardize: true, statistics_from: a.csv, rows: 2"), !says);
}

TEST_CASE("a backend fits the devices that the run will have", "[spec]") {
  const bool has_gpus = !trainctl::read_machine().gpus.empty();
  const std::string automatic = "trainer.accelerator=auto";
  const std::string nccl =
      problems_of({automatic, "distributed.backend=nccl", "trainer.devices=2"});
  const std::string gloo =
      problems_of({automatic, "distributed.backend=gloo", "trainer.devices=2"});
  CHECK((nccl.find("nccl works on GPUs only, and this machine has none") == std::string::npos) ==
        has_gpus);
  CHECK((gloo.find("gloo works on CPUs only") == std::string::npos) != has_gpus);
  CHECK_THAT(problems_of({automatic, "distributed.backend=nccl", "trainer.devices=1"}),
             !Contains("backend"));
}

TEST_CASE("thousands of problems take no longer than they are many", "[spec]") {
  std::string yaml = kSound;
  yaml.replace(yaml.find("[accuracy]"), 10, "");
  yaml.insert(yaml.find("metrics: ") + 8, [] {
    std::string items;
    for (int i = 0; i < 20'000; ++i) items += "\n  - accuracy";
    return items;
  }());
  const trainctl::SteadyClock clock;
  const double start = clock.now();
  trainctl::config::Diagnostics diagnostics;
  CHECK_THROWS_AS(spec::load_experiment_text("many.yaml", yaml, {}, diagnostics), trainctl::Error);
  CHECK(clock.now() - start < 10);  // 0.1 s; every problem held against every other took minutes
  const std::string problems = diagnostics.render();
  CHECK_THAT(problems,
             Contains("1000 errors in") && Contains("the check stops collecting after 1,000"));
}

TEST_CASE("a warm-up is shorter than the run", "[spec]") {
  CHECK_THAT(problems_of({"scheduler={type: constant_lr, warmup: 5}"}),
             Contains("the warm-up of 5 epochs must be shorter than the run of 5 epochs"));
  CHECK_THAT(problems_of({"scheduler={type: step_lr, step_size: 10, warmup: 100, interval: step}",
                          "trainer.max_steps=100"}),
             Contains("the warm-up of 100 steps"));
  CHECK(problems_of({"scheduler={type: constant_lr, warmup: 4}"}).empty());
}

TEST_CASE("milestones rise and lie within the run", "[spec]") {
  CHECK_THAT(problems_of({"scheduler={type: multi_step_lr, milestones: [3, 3]}"}),
             Contains("the milestones must rise, but 3 follows 3"));
  CHECK_THAT(problems_of({"scheduler={type: multi_step_lr, milestones: [2, 30]}"}),
             Contains("warning: the milestone at 30 is never reached"));
  CHECK_THAT(problems_of({"scheduler={type: step_lr, step_size: 5}"}),
             Contains("warning: the rate never drops"));
  CHECK_THAT(problems_of({"scheduler={type: reduce_lr_on_plateau, interval: step}"}),
             Contains("reduce_lr_on_plateau counts epochs"));
}

TEST_CASE("nesterov needs momentum and no dampening", "[spec]") {
  CHECK_THAT(problems_of({"optimizer={type: sgd, nesterov: true}"}),
             Contains("nesterov needs a momentum above 0"));
  CHECK_THAT(problems_of({"optimizer={type: sgd, nesterov: true, momentum: 0.9, dampening: 0.5}"}),
             Contains("dampening of 0, found 0.5"));
  CHECK(problems_of({"optimizer={type: sgd, nesterov: true, momentum: 0.9}"}).empty());
}

TEST_CASE("normalize has as many means as deviations", "[spec]") {
  CHECK_THAT(problems_of({"dataset.train.transforms.0.std=[0.3, 0.2]",
                          "dataset.val.transforms.0.std=[0.3, 0.2]"}),
             Contains("normalize has 1 value(s) of mean, but 2 of std"));
}

TEST_CASE("a validation that cannot tell anything is warned of", "[spec]") {
  CHECK_THAT(problems_of({"dataset.val.split=train"}),
             Contains("warning: validation uses the very samples that are trained on"));
  CHECK_THAT(
      problems_of({"~dataset.val.transforms"}),
      Contains("warning: validation samples are not normalized as the training samples are"));
  CHECK_THAT(problems_of({"trainer.check_val_every_n_epoch=6"}),
             Contains("ends before its first validation"));
}

TEST_CASE("a metric is listed once", "[spec]") {
  CHECK_THAT(problems_of({"metrics=[accuracy, accuracy]"}),
             Contains("the metric 'accuracy' is listed twice"));
  CHECK(problems_of({"metrics=[{type: top_k_accuracy, k: 2}, {type: top_k_accuracy, k: 3}]"})
            .empty());
}

TEST_CASE("trainer keys that contradict one another are told", "[spec]") {
  CHECK_THAT(problems_of({"trainer.max_time=soon"}),
             Contains("'max_time' must be a span of time, found 'soon'"));
  CHECK(problems_of({"trainer.max_time=00:12:00:00"}).empty());
  for (const char* text : {"soon", "0s", "0.5s", "30", "-5m"}) {
    CHECK_THAT(problems_of({std::string("trainer.hang_timeout=") + text}),
               Contains("'hang_timeout' must be"));
  }
  for (const char* text : {"auto", "1s", "90s", "00:05:00"})
    CHECK(problems_of({std::string("trainer.hang_timeout=") + text}).empty());
  CHECK_THAT(problems_of({"trainer.overfit_batches=1", "trainer.limit_train_batches=2"}),
             Contains("both say how long an epoch is"));
  CHECK_THAT(problems_of({"trainer.gradient_clip_algorithm=value"}),
             Contains("warning: nothing is clipped"));
  CHECK_THAT(problems_of({"distributed.backend=nccl"}), Contains("nccl works on GPUs only"));
  CHECK_THAT(problems_of({"trainer.devices=1000"}), Contains("warning: 1000 processes share"));
}

TEST_CASE("checkpoint keys that cannot be, or work against restarts, are told", "[spec]") {
  for (const char* text : {"soon", "0s", "30", "-5m"}) {
    CHECK_THAT(problems_of({std::string("checkpoint.every_t=") + text}),
               Contains("'every_t' must be a span of time"));
  }
  for (const char* sound :
       {"checkpoint.every_t=15m", "checkpoint.every_n_steps=1", "checkpoint.save_top_k=-1",
        "checkpoint.save_top_k=3", "checkpoint.save_weights_only=true", "trainer.max_restarts=3",
        "checkpoint.async=false", "checkpoint.on_best=true"})
    CHECK(problems_of({sound}).empty());
  CHECK_THAT(problems_of({"checkpoint.every_n_steps=0"}), Contains("'every_n_steps' must be"));
  CHECK_THAT(problems_of({"trainer.max_restarts=-1"}), Contains("'max_restarts' must be"));
  CHECK_THAT(problems_of({"checkpoint.save_weights_only=true", "trainer.max_restarts=2"}),
             Contains("warning: no run can go on from weights alone") && Contains("2 restart(s)"));
}

TEST_CASE("a mistake elsewhere in a section does not hide a contradiction", "[spec]") {
  CHECK_THAT(problems_of({"optimizer={type: sgd, learning_rate: 1, nesterov: true}"}),
             Contains("nesterov needs") && Contains("2 errors"));
  CHECK_THAT(
      problems_of({"early_stopping={type: patience, monitor: val/acc}", "dataset.val.split=valid"}),
      Contains("2 errors"));
  CHECK_THAT(
      problems_of({"scheduler={type: multi_step_lr, milestones: [3, 2]}", "trainer.max_epochs=05"}),
      Contains("2 errors"));
  CHECK_THAT(problems_of({"early_stopping=patience", "dataset=3"}), Contains("1 error in"));
}

TEST_CASE("all problems come at once, each at its own place", "[spec]") {
  const std::string problems = problems_of(
      {"optimizer.learning_rate=1", "trainer.max_epochs=0", "checkpoint.monitor=val/f1"});
  CHECK_THAT(problems, Contains("unknown key 'learning_rate'") &&
                           Contains("'max_epochs' must be") && Contains("names 'val/f1'"));
  CHECK_THAT(problems, Contains("3 errors in"));
}

TEST_CASE("the address of an S3 server holds no credentials, and none are shown", "[spec]") {
  const auto problems = [](const std::string& endpoint) {
    return problems_of({"dataset.remote={endpoint: \"" + endpoint + "\", retries: x}"});
  };
  for (const char* endpoint : {"http://me:sekret@host", "http://host?sekret", "ftp://a:sekret@h"}) {
    CHECK_THAT(problems(endpoint), !Contains("sekret"));
    CHECK_THAT(problems(endpoint), Contains("holds no"));
  }
  CHECK_THAT(problems("http://host#x"), Contains("no query and no fragment"));
  CHECK_THAT(problems_of({"dataset.remote.endpoint=http://localhost:9000/path"}), Equals(""));
}

TEST_CASE("divergence watches a loss", "[spec]") {
  const std::string stop = "early_stopping={type: divergence, monitor: ";
  CHECK_THAT(problems_of({"early_stopping=divergence"}), Equals(""));
  CHECK_THAT(problems_of({stop + "val/loss}"}), Equals(""));
  CHECK_THAT(problems_of({stop + "val/accuracy}"}),
             Contains("'val/accuracy' cannot diverge: higher is better"));
  CHECK_THAT(problems_of({stop + "val/f1}"}), Contains("no such value is measured"));
  CHECK_THAT(problems_of({"early_stopping={type: divergence, factor: 1}"}), Contains("factor"));
}

TEST_CASE("a cycle of the momentum needs an optimizer that has one", "[spec]") {
  const std::string cycle = "scheduler={type: one_cycle_lr, cycle_momentum: true";
  CHECK_THAT(problems_of({cycle + "}"}), Equals(""));
  CHECK_THAT(problems_of({cycle + "}", "optimizer={type: sgd, momentum: 0.9}"}), Equals(""));
  CHECK_THAT(problems_of({"scheduler=one_cycle_lr", "optimizer=sgd"}), Equals(""));
  CHECK_THAT(
      problems_of({cycle + "}", "optimizer=sgd"}),
      Contains("the optimizer 'sgd' has no momentum to cycle") && Contains("add 'momentum: 0.9'"));
  CHECK_THAT(problems_of({cycle + "}", "optimizer=rmsprop"}), Contains("'rmsprop' has no"));
  CHECK_THAT(problems_of({cycle + "}", "optimizer=adagrad"}),
             Contains("'adagrad' has no") && Contains("choose another optimizer"));
  CHECK_THAT(problems_of({cycle + ", base_momentum: 0.9, max_momentum: 0.8}"}),
             Contains("base_momentum is 0.9, above max_momentum 0.8"));
  CHECK_THAT(problems_of({cycle + ", max_momentum: 1}"}), Contains("max_momentum"));
  CHECK_THAT(problems_of({"scheduler={type: sequential_lr, milestones: [2], schedulers: "
                          "[constant_lr, {type: one_cycle_lr, cycle_momentum: true}]}",
                          "optimizer=sgd"}),
             Contains("has no momentum to cycle"));
}

TEST_CASE("what a run falls back on is checked with the file, each attempt by its number",
          "[spec]") {
  const std::string key = "trainer.on_divergence=";
  CHECK_THAT(problems_of({key + "[optimizer.lr=0.1, [optimizer.lr=0.01, "
                                "trainer.gradient_clip_val=1.0]]"}),
             Equals(""));
  const std::string wrong =
      problems_of({key + "[optimizer.lr=0.1, [optimizer.rate=0.01, trainer.max_epochs=soon], []]"});
  CHECK_THAT(wrong, Contains("attempt 3 of 'on_divergence'") && Contains("unknown key 'rate'") &&
                        Contains("max_epochs") &&
                        Contains("attempt 4 of 'on_divergence': it "
                                 "changes nothing") &&
                        !Contains("attempt 2"));
  CHECK_THAT(problems_of({key + "[optimizer.lr]"}), Contains("an override needs a value"));
  CHECK_THAT(problems_of({key + "{optimizer.lr: 0.1}"}), Contains("on_divergence"));
  CHECK_THAT(problems_of({key + "[[[optimizer.lr=0.1]]]"}), Contains("on_divergence"));
}

TEST_CASE("a fallback may be a map of what is laid over the file", "[spec]") {
  const spec::Loaded loaded = load_sound(
      {"trainer.on_divergence=[{optimizer.lr: 0.1}, {optimizer: {lr: 0.01, betas: [0.8, 0.99]}, "
       "trainer: {max_epochs: 2}}, [seed=3, {metrics: [accuracy, {type: top_k_accuracy, k: "
       "2}]}]]"});
  const auto& fallbacks = loaded.experiment.trainer.on_divergence;
  REQUIRE(fallbacks.size() == 3);
  CHECK(fallbacks[0].values == std::vector<std::string>{"optimizer.lr=0.1"});
  CHECK(fallbacks[1].values == std::vector<std::string>{"optimizer.lr=0.01",
                                                        "optimizer.betas=[0.8, 0.99]",
                                                        "trainer.max_epochs=2"});
  trainctl::config::Diagnostics problems;
  const spec::Loaded second = spec::overridden(loaded, fallbacks[1].values, problems);
  CHECK(second.experiment.trainer.max_epochs == 2);
  const spec::Loaded third = spec::overridden(loaded, fallbacks[2].values, problems);
  CHECK(third.experiment.seed == 3);
  CHECK(third.experiment.metrics.size() == 2);
  CHECK(problems.error_count() == 0);
  const std::string resolved = spec::dump_resolved(loaded);
  const spec::Loaded again = spec::load_experiment_text("resolved.yaml", resolved, {}, problems);
  CHECK(again.experiment.trainer.on_divergence == fallbacks);
}

TEST_CASE("a fallback's type tells that it may be a map", "[spec]") {
  const auto& trainer = *spec::experiment_schema().find("trainer")->type.object;
  CHECK_THAT(trainctl::config::type_text(trainer.find("on_divergence")->type, {}),
             Equals("list of text or map or list of texts and maps"));
}

TEST_CASE("a text in a fallback's map is what the file says, references resolved once", "[spec]") {
  trainctl::config::Diagnostics problems;
  const spec::Loaded loaded =
      load_sound({"trainer.on_divergence=[{name: '$${a} ${trainer.max_epochs}', seed: 7}, {name: "
                  "\"it's \\\"$${b}\\\"\"}]"});
  const auto& fallbacks = loaded.experiment.trainer.on_divergence;
  REQUIRE(fallbacks.size() == 2);
  const auto name_after = [&](const spec::Loaded& base, std::size_t attempt) {
    return spec::overridden(base, base.experiment.trainer.on_divergence.at(attempt).values,
                            problems)
        .experiment.name;
  };
  CHECK(name_after(loaded, 0) == "${a} 5");
  CHECK(name_after(loaded, 1) == "it's \"${b}\"");
  const spec::Loaded again =
      spec::load_experiment_text("resolved.yaml", spec::dump_resolved(loaded), {}, problems);
  CHECK(again.experiment.trainer.on_divergence == fallbacks);
  CHECK(name_after(again, 0) == "${a} 5");
  CHECK(problems.error_count() == 0);
}

TEST_CASE("what a fallback's map gets wrong is told at its line", "[spec]") {
  const auto told = [](const std::string& entry) {
    trainctl::config::Diagnostics problems;
    const std::string text =
        "dataset: { train: { type: synthetic_digits } }\nmodel: linear\n"
        "optimizer: { type: sgd, lr: 0.1 }\ntrainer:\n  on_divergence:\n" +
        entry;
    try {
      spec::load_experiment_text("a.yaml", text, {}, problems);
    } catch (const trainctl::Error&) {
    }
    return problems.render();
  };
  CHECK_THAT(told("    - optimizer:\n        lr: 0.01\n"), !Contains("error"));
  CHECK_THAT(told("    - optimizer:\n        lr: 0.01\n        rate: 1\n"),
             Contains("yaml:8:9: error: attempt 2 of 'on_divergence': unknown key 'rate'"));
  CHECK_THAT(told("    - optimizer.lr: 0.01\n    - optimizr:\n        lr: 0.01\n"),
             Contains("yaml:7:7: error: attempt 3 of 'on_divergence': unknown key 'optimizr'"));
  CHECK_THAT(told("    - trainer:\n        max_epochs: soon\n"),
             Contains("yaml:7:21: error: attempt 2"));
  CHECK_THAT(told("    - {}\n"),
             Contains("yaml:6:7: error: attempt 2") && Contains("changes nothing"));
  CHECK_THAT(told("    - optimizer: {}\n"), Contains("changes nothing"));
  CHECK_THAT(told("    - loader: { batch_size: auto }\n"), Contains("found out once"));
  CHECK_THAT(told("    - plugins: [mine.so]\n"), Contains("loaded once"));
  CHECK_THAT(told("    - 'my key': 1\n"), Contains("attempt 2"));
}

TEST_CASE("a fallback that adds a key fits the resolved file as well", "[spec]") {
  const spec::Loaded loaded = load_sound({"trainer.gradient_clip_val=2.0"});
  trainctl::config::Diagnostics problems;
  const spec::Loaded changed =
      spec::overridden(loaded, {"+trainer.gradient_clip_val=1.0"}, problems);
  CHECK(problems.error_count() == 0);
  CHECK(changed.experiment.trainer.gradient_clip_val == 1.0);
}

TEST_CASE("what is settled before the first attempt is no fallback", "[spec]") {
  const std::string key = "trainer.on_divergence=";
  CHECK_THAT(problems_of({key + "[loader.batch_size=auto]"}),
             Contains("attempt 2 of 'on_divergence'") && Contains("found out once"));
  CHECK_THAT(problems_of({key + "[++plugins=mine.so]"}),
             Contains("attempt 2 of 'on_divergence'") && Contains("loaded once"));
  CHECK_THAT(problems_of({key + "[loader.batch_size=64]"}), Equals(""));
}

TEST_CASE("an attempt is the file with the overrides of its number", "[spec]") {
  const spec::Loaded loaded = load_sound({"trainer.on_divergence=[trainer.max_epochs=2]"});
  trainctl::config::Diagnostics problems;
  const auto& words = loaded.experiment.trainer.on_divergence.at(0).values;
  CHECK(spec::overridden(loaded, words, problems).experiment.trainer.max_epochs == 2);
  CHECK(loaded.experiment.trainer.max_epochs == 5);
  CHECK(problems.error_count() == 0);
}
