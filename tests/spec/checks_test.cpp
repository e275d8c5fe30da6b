#include "base/clock.hpp"
#include "base/machine/machine.hpp"
#include "config/schema/dump.hpp"
#include "experiment_yaml.hpp"
#include "support/catch.hpp"

namespace config = trainctl::config;
namespace spec = trainctl::spec;
using Catch::Matchers::Equals;

TEST_CASE("experiment checks: a valid experiment has no problems", "[spec]") {
  CHECK_THAT(problems_of({}), Equals(""));
}

TEST_CASE("class weights: at least one must not be 0", "[spec]") {
  CHECK_THAT(problems_of({"loss={type: cross_entropy, weight: [0, 0]}"}),
             Contains("loss weights must not all be 0"));
  CHECK(problems_of({"loss={type: cross_entropy, weight: [0, 1]}"}).empty());
}

TEST_CASE("concat: weights of an evaluated split are an error", "[spec]") {
  const std::string source = "{type: synthetic_digits, samples: 9}";
  const std::string sources = "type: concat, sources: [" + source + ", " + source + "]";
  CHECK_THAT(problems_of({"dataset.val={" + sources + ", weights: [1, 2]}"}),
             Contains("'weights' apply only to dataset.train"));
  CHECK_THAT(problems_of({"dataset.val={" + sources + "}"}), !Contains("'weights'"));
}

TEST_CASE("nll: a model that outputs logits causes a warning", "[spec]") {
  const char* expected = "nll takes log-probabilities, but this model outputs logits";
  CHECK_THAT(problems_of({"loss=nll"}), Contains(expected));
  CHECK_THAT(problems_of({"loss=nll", "model={type: sequential, layers: [flatten, linear]}"}),
             Contains(expected));
  CHECK(
      problems_of({"loss=nll", "model={type: sequential, layers: [flatten, linear, log_softmax]}"})
          .empty());
}

TEST_CASE("batch_transforms: a loss that does not take mixed labels is an error", "[spec]") {
  const std::string mixed = "+dataset.train.batch_transforms=[mixup]";
  CHECK_THAT(problems_of({"loss=mse", mixed}),
             Contains("loss=mse") && Contains("the loss 'mse' does not take the mixed labels") &&
                 Contains("choose a loss that takes them (cross_entropy, nll, bce_with_logits), or "
                          "remove 'batch_transforms'"));
  CHECK(problems_of({mixed}).empty());
  CHECK_THAT(problems_of({"loss=nll", mixed}), !Contains("mixed labels"));
  CHECK(problems_of({"loss=bce_with_logits", mixed}).empty());
  CHECK_THAT(problems_of({"loss=focal", mixed}),
             Contains("'focal' does not take the mixed labels"));
  CHECK(problems_of({"loss=mse"}).empty());
  CHECK_THAT(problems_of({"loss=msee", mixed}), !Contains("does not take the mixed labels"));
  CHECK_THAT(problems_of({"+dataset.val.batch_transforms=[mixup]"}), Contains("unknown key"));
}

TEST_CASE("standardize: different statistics for training and validation cause a warning",
          "[spec]") {
  const auto problems = [](const std::string& val_options) {
    const std::string table = "{type: csv, path: a.csv, label: y, ";
    return problems_of({"dataset.train=" + table + "standardize: true, statistics_from: a.csv}",
                        "dataset.val=" + table + val_options + "}"});
  };
  const auto says = Contains("dataset.val standardizes its rows differently from dataset.train");
  CHECK_THAT(problems("rows: 2"), says);
  CHECK_THAT(problems("standardize: true, statistics_from: b.csv"), says);
  CHECK_THAT(problems("standardize: true, statistics_from: a.csv, rows: 2"), !says);
}

TEST_CASE("distributed.backend: must support the devices of the run", "[spec]") {
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

TEST_CASE("growth: checking an experiment is linear in its problems", "[spec]") {
  std::string yaml = kValidYaml;
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
  CHECK(clock.now() - start < 10);  // it takes 0.1 s, and took minutes when pairs were compared
  const std::string problems = diagnostics.render();
  CHECK_THAT(problems, Contains("1000 errors in") && Contains("The check stopped after 1,000"));
}

TEST_CASE("warm-up: must be shorter than the run, in epochs or steps", "[spec]") {
  CHECK_THAT(problems_of({"scheduler={type: constant, warmup: 5}"}),
             Contains("the warm-up of 5 epochs must be shorter than the run of 5 epochs"));
  CHECK_THAT(problems_of({"scheduler={type: step_lr, step_size: 10, warmup: 100, interval: step}",
                          "trainer.max_steps=100"}),
             Contains("the warm-up of 100 steps"));
  CHECK(problems_of({"scheduler={type: constant, warmup: 4}"}).empty());
}

TEST_CASE("scheduler: milestones that do not ascend or are never reached are reported", "[spec]") {
  CHECK_THAT(problems_of({"scheduler={type: multi_step_lr, milestones: [3, 3]}"}),
             Contains("milestones must be in ascending order, but 3 follows 3"));
  CHECK_THAT(problems_of({"scheduler={type: multi_step_lr, milestones: [2, 30]}"}),
             Contains("warning: the milestone at 30 is never reached"));
  CHECK_THAT(problems_of({"scheduler={type: step_lr, step_size: 5}"}),
             Contains("warning: the learning rate never drops"));
  CHECK_THAT(problems_of({"scheduler={type: reduce_lr_on_plateau, interval: step}"}),
             Contains("reduce_lr_on_plateau counts epochs"));
}

TEST_CASE("optimizer.groups: another optimizer excludes lr_scale, and a scheduler requires it",
          "[spec]") {
  const auto problems = [](const std::string& group) {
    return problems_of({"optimizer={type: muon, groups: [{match: [bias], " + group + "}]}"});
  };
  CHECK_THAT(problems("optimizer: {type: sgd, lr: 0.1}, lr_scale: 2"),
             Contains("a group with 'optimizer' takes learning rate and weight decay from there"));
  CHECK_THAT(problems("optimizer: sgd, weight_decay: 0"),
             Contains("remove 'lr_scale' and 'weight_decay' from the group"));
  CHECK_THAT(problems("scheduler: constant"),
             Contains("a group with 'scheduler' needs its own 'optimizer'"));
  CHECK_THAT(problems("optimizer: {type: sgd, nesterov: true}"),
             Contains("nesterov needs momentum above 0"));
  CHECK_THAT(problems("optimizer: {type: adam, groups: [{match: ['*'], lr_scale: 2, optimizer: "
                      "sgd}]}"),
             Contains("remove 'lr_scale' and 'weight_decay' from the group"));
  for (const char* scheduler :
       {"reduce_lr_on_plateau", "one_cycle_lr",
        "{type: sequential_lr, schedulers: [constant, one_cycle_lr], milestones: [1]}"}) {
    INFO(scheduler);
    CHECK_THAT(problems(std::string("optimizer: sgd, scheduler: ") + scheduler),
               Contains("must not monitor a value or set the momentum"));
  }
  CHECK(problems("optimizer: {type: sgd, lr: 0.1}, scheduler: {type: linear_lr, total_iters: 3}")
            .empty());
}

TEST_CASE("optimizer.groups: the scheduler of a group is checked like that of the run", "[spec]") {
  const auto group = [](const std::string& scheduler) {
    return "optimizer={type: muon, groups: [{match: [bias], optimizer: sgd, scheduler: " +
           scheduler + "}]}";
  };
  CHECK_THAT(problems_of({group("{type: multi_step_lr, milestones: [2, 30]}")}),
             Contains("warning: the milestone at 30 is never reached: the run has 5 epochs"));
  CHECK_THAT(problems_of({group("{type: constant, warmup: 5}")}),
             Contains("the warm-up of 5 epochs must be shorter than the run of 5 epochs"));
  CHECK_THAT(problems_of({group("{type: sequential_lr, schedulers: [constant], milestones: [2]}")}),
             Contains("1 schedulers need 0 milestones, got 1"));
  const std::string inner =
      "{type: adam, groups: [{match: [bias], optimizer: sgd, scheduler: wsd}]}";
  for (const std::string& optimizer :
       {group("cosine_annealing_lr"), group("{type: linear_lr, total_iters: auto}"),
        group("{type: sequential_lr, schedulers: [constant, wsd], milestones: [2]}"),
        "optimizer={type: muon, groups: [{match: [bias], optimizer: " + inner + "}]}"}) {
    INFO(optimizer);
    CHECK_THAT(problems_of({"~trainer.max_epochs", "trainer.max_time=1h", optimizer}),
               Contains("the length of the run, which is unknown if only trainer.max_time is set"));
    CHECK(problems_of({optimizer}).empty());
  }
}

TEST_CASE("nesterov: requires momentum and no dampening", "[spec]") {
  CHECK_THAT(problems_of({"optimizer={type: sgd, nesterov: true}"}),
             Contains("nesterov needs momentum above 0"));
  CHECK_THAT(problems_of({"optimizer={type: sgd, nesterov: true, momentum: 0.9, dampening: 0.5}"}),
             Contains("nesterov needs dampening 0, got 0.5"));
  CHECK(problems_of({"optimizer={type: sgd, nesterov: true, momentum: 0.9}"}).empty());
}

TEST_CASE("normalize: mean and std must have the same number of values", "[spec]") {
  CHECK_THAT(problems_of({"dataset.train.transforms.0.std=[0.3, 0.2]",
                          "dataset.val.transforms.0.std=[0.3, 0.2]"}),
             Contains("normalize needs as many values in 'std' as in 'mean' (1), got 2"));
}

TEST_CASE("validation: settings that make it uninformative cause a warning", "[spec]") {
  CHECK_THAT(problems_of({"dataset.val.split=train"}),
             Contains("warning: validation uses the training samples"));
  CHECK_THAT(
      problems_of({"~dataset.val.transforms"}),
      Contains("warning: dataset.val normalizes its samples differently from dataset.train"));
  CHECK_THAT(problems_of({"trainer.check_val_every_n_epoch=6"}),
             Contains("ends before its first validation"));
}

TEST_CASE("metrics: a duplicate is an error", "[spec]") {
  CHECK_THAT(problems_of({"metrics=[accuracy, accuracy]"}),
             Contains("the metric 'accuracy' is listed twice"));
  CHECK(problems_of({"metrics=[{type: top_k_accuracy, k: 2}, {type: top_k_accuracy, k: 3}]"})
            .empty());
}

TEST_CASE("trainer: invalid and contradictory keys are reported", "[spec]") {
  CHECK_THAT(problems_of({"trainer.max_time=soon"}),
             Contains("'max_time' must be a duration, got 'soon'"));
  CHECK(problems_of({"trainer.max_time=00:12:00:00"}).empty());
  for (const char* text : {"soon", "0s", "0.5s", "30", "-5m"}) {
    CHECK_THAT(problems_of({std::string("trainer.hang_timeout=") + text}),
               Contains("'hang_timeout' must be"));
  }
  for (const char* text : {"auto", "1s", "90s", "00:05:00"})
    CHECK(problems_of({std::string("trainer.hang_timeout=") + text}).empty());
  CHECK_THAT(problems_of({"trainer.overfit_batches=1", "trainer.limit_train_batches=2"}),
             Contains("both set the length of an epoch"));
  CHECK_THAT(problems_of({"trainer.gradient_clip_algorithm=value"}),
             Contains("warning: nothing is clipped"));
  CHECK_THAT(problems_of({"distributed.backend=nccl"}), Contains("nccl works on GPUs only"));
  CHECK_THAT(problems_of({"trainer.devices=1000"}), Contains("warning: 1000 processes share"));
}

TEST_CASE("trainer.devices: a number, auto or -1, or a list of GPUs") {
  const auto devices_of = [](const std::string& text) {
    return load_valid({"trainer.accelerator=cpu", "trainer.devices=" + text})
        .experiment.trainer.devices;
  };
  CHECK(devices_of("auto").is_auto());
  CHECK(devices_of("-1").is_auto());
  CHECK(devices_of("2").value == 2);
  CHECK_FALSE(devices_of("2").is_list());
  const auto problems = [](const std::string& text) {
    return problems_of({"trainer.accelerator=cpu", "trainer.devices=" + text});
  };
  CHECK_THAT(problems("[1, 3]"), Contains("lists GPUs, but the run is on CPUs") &&
                                     Contains("write 'devices: 2' for as many processes"));
  CHECK_THAT(problems("[1, 1]"), Contains("'devices' lists GPU 1 twice"));
  CHECK_THAT(problems("[1, -2]"), Contains("'devices' must be at least 0"));
  CHECK_THAT(problems("[]"), Contains("'devices' lists no GPU"));
  CHECK_THAT(problems("-2"), Contains("'devices' must be at least 1"));
  CHECK_THAT(problems("0"), Contains("'devices' must be at least 1"));
}

TEST_CASE("trainer.devices: a list is written as it was read, and -1 as auto") {
  using spec::Devices;
  const auto written = [](const Devices& devices) {
    return config::flow_text(config::Codec<Devices>::write(devices));
  };
  CHECK(written({}) == "auto");
  CHECK(written({.value = 2}) == "2");
  CHECK(written({.value = 2, .gpus = {3, 1}}) == "[3, 1]");
  CHECK(written({.value = 4, .gpus = {3, 1}}) == "4");  // another number replaces the list
}

TEST_CASE("unfreeze_at: requires an epoch and patterns, and no recomputed blocks") {
  CHECK(problems_of({"freeze=[fc1]", "unfreeze_at=[{epoch: 2, match: [fc1]}]"}).empty());
  CHECK_THAT(problems_of({"unfreeze_at=[{epoch: 0, match: [fc1]}]"}),
             Contains("'epoch' must be at least 1"));
  CHECK_THAT(problems_of({"unfreeze_at=[{epoch: 1}]"}), Contains("match"));
  CHECK_THAT(problems_of({"unfreeze_at=[{epoch: 1, match: [fc1]}]",
                          "trainer.activation_checkpointing=blocks"}),
             Contains("'unfreeze_at' cannot be combined with trainer.activation_checkpointing"));
}

TEST_CASE("trainer.test: requires a test set") {
  CHECK_THAT(problems_of({"trainer.test=true"}),
             Contains("'test: true' needs a test set") && Contains("'dataset.split.test'"));
  CHECK(problems_of({"trainer.test=true", "dataset.test={type: mnist, root: data/mnist}"}).empty());
  CHECK(problems_of({"trainer.test=true", "dataset.split={test: 0.1}"}).empty());
}

TEST_CASE("trainer.val_check_interval: requires ranks with equal weights") {
  CHECK(problems_of({"trainer.val_check_interval=0.25"}).empty());
  CHECK(problems_of({"trainer.val_check_interval=100"}).empty());
  CHECK_THAT(problems_of({"trainer.val_check_interval=1.5"}),
             Contains("must be an integer or a fraction up to 1.0, got '1.5'"));
  CHECK_THAT(problems_of({"trainer.val_check_interval=0"}),
             Contains("'val_check_interval' must be"));
  CHECK_THAT(problems_of({"trainer.val_check_interval=0.5", "distributed.type=local_sgd"}),
             Contains("validates only at the end of an epoch"));
}

TEST_CASE("trainer.num_nodes: several nodes require an explicit batch size", "[spec]") {
  CHECK(problems_of({"trainer.num_nodes=2"}).empty());
  CHECK_THAT(problems_of({"trainer.num_nodes=2", "loader.batch_size=auto"}),
             Contains("'batch_size: auto' works on one node only, but the run has 2 nodes"));
  CHECK_THAT(problems_of({"trainer.num_nodes=0"}), Contains("'num_nodes' must be"));
}

TEST_CASE("checkpoint: keys that are invalid or prevent restarts are reported", "[spec]") {
  for (const char* text : {"soon", "0s", "30", "-5m"}) {
    CHECK_THAT(problems_of({std::string("checkpoint.every_t=") + text}),
               Contains("'every_t' must be a duration"));
  }
  for (const char* valid :
       {"checkpoint.every_t=15m", "checkpoint.every_n_steps=1", "checkpoint.save_top_k=-1",
        "checkpoint.save_top_k=3", "checkpoint.save_weights_only=true", "trainer.max_restarts=3",
        "checkpoint.async=false", "checkpoint.on_best=true"})
    CHECK(problems_of({valid}).empty());
  CHECK_THAT(problems_of({"checkpoint.every_n_steps=0"}), Contains("'every_n_steps' must be"));
  CHECK_THAT(problems_of({"trainer.max_restarts=-1"}), Contains("'max_restarts' must be"));
  CHECK_THAT(problems_of({"checkpoint.save_weights_only=true", "trainer.max_restarts=2"}),
             Contains("warning: a restart cannot resume from a checkpoint with weights only") &&
                 Contains("'trainer.max_restarts' is 2"));
}

TEST_CASE("experiment checks: an error elsewhere in a section does not hide a contradiction",
          "[spec]") {
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

TEST_CASE("experiment checks: all problems are reported at once, each with its location",
          "[spec]") {
  const std::string problems = problems_of(
      {"optimizer.learning_rate=1", "trainer.max_epochs=0", "checkpoint.monitor=val/f1"});
  CHECK_THAT(problems, Contains("unknown key 'learning_rate'") &&
                           Contains("'max_epochs' must be") && Contains("is 'val/f1'"));
  CHECK_THAT(problems, Contains("3 errors in"));
}

TEST_CASE("S3 endpoint: credentials are an error that does not show them", "[spec]") {
  const auto problems = [](const std::string& endpoint) {
    return problems_of({"dataset.remote={endpoint: \"" + endpoint + "\", retries: x}"});
  };
  for (const char* endpoint : {"http://me:sekret@host", "http://host?sekret", "ftp://a:sekret@h"}) {
    CHECK_THAT(problems(endpoint), !Contains("sekret"));
    CHECK_THAT(problems(endpoint), Contains("must not contain a"));
  }
  CHECK_THAT(problems("http://host#x"), Contains("a query or fragment"));
  CHECK_THAT(problems_of({"dataset.remote.endpoint=http://localhost:9000/path"}), Equals(""));
}

TEST_CASE("one_cycle_lr: cycling the momentum requires an optimizer with momentum", "[spec]") {
  const std::string cycle = "scheduler={type: one_cycle_lr";
  CHECK_THAT(problems_of({cycle + "}"}), Equals(""));
  CHECK_THAT(problems_of({cycle + "}", "optimizer={type: sgd, momentum: 0.9}"}), Equals(""));
  for (const char* optimizer : {"optimizer=sgd", "optimizer=rmsprop", "optimizer=muon"})
    CHECK_THAT(problems_of({cycle + "}", optimizer}), Equals(""));
  CHECK_THAT(problems_of({cycle + "}", "optimizer=adagrad"}),
             Contains("the optimizer 'adagrad' has no momentum to cycle") &&
                 Contains("write 'cycle_momentum: false', or choose another optimizer"));
  CHECK_THAT(problems_of({cycle + ", cycle_momentum: false}", "optimizer=adagrad"}), Equals(""));
  CHECK_THAT(problems_of({cycle + ", base_momentum: 0.9, max_momentum: 0.8}"}),
             Contains("base_momentum must be at most max_momentum (0.8), got 0.9"));
  CHECK_THAT(problems_of({cycle + ", max_momentum: 1}"}), Contains("max_momentum"));
  CHECK_THAT(problems_of({"scheduler={type: sequential_lr, milestones: [2], schedulers: "
                          "[constant, one_cycle_lr]}",
                          "optimizer=adagrad"}),
             Contains("has no momentum to cycle"));
}
