#include "spec/checks/checks.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment_yaml.hpp"
#include "support/catch.hpp"

using trainctl::spec::ImageSize;
using trainctl::spec::Inputs;
using trainctl::spec::SampleKind;
using trainctl::spec::SplitFacts;
using trainctl::spec::Targets;

namespace {

std::string problems_with(const std::vector<std::string>& overrides,
                          trainctl::spec::SplitFacts train) {
  trainctl::config::Diagnostics diagnostics;
  trainctl::spec::check_against_data(load_valid(overrides), train, diagnostics);
  return diagnostics.render();
}

}  // namespace

TEST_CASE("loader.batch_size: a batch larger than the data is a warning, with drop_last an error") {
  const SplitFacts data{.samples = 100, .classes = 10};
  const std::string kept = problems_with({"loader.batch_size=1000"}, data);
  CHECK_THAT(kept, Contains("warning: a batch of 1,000 is larger than the training data (100 "
                            "samples), so each epoch is one incomplete batch") &&
                       !Contains("error:"));
  const std::string dropped =
      problems_with({"loader.batch_size=1000", "loader.drop_last=true"}, data);
  CHECK_THAT(dropped, Contains("error: a batch of 1,000 is larger than the training data") &&
                          Contains("drop_last drops every batch") &&
                          Contains("set loader.drop_last=false"));
  CHECK(problems_with({"loader.batch_size=100", "loader.drop_last=true"}, data).empty());
}

TEST_CASE("loader.batch_size: the batch of all devices and nodes is compared with the data",
          "[spec]") {
  const std::vector<std::string> two_by_two{"trainer.accelerator=cpu", "trainer.devices=2",
                                            "trainer.num_nodes=2", "loader.batch_size=26"};
  CHECK_THAT(problems_with(two_by_two, {.samples = 100, .classes = 10}),
             Contains("a batch of 26 x 4 devices is larger") && Contains("write 25 or less"));
  CHECK(problems_with({"loader.batch_size=100"}, {.samples = 100, .classes = 10}).empty());
  CHECK_THAT(problems_with({"loader.batch_size=1000"}, {.samples = 100, .classes = 10}),
             Contains("a batch of 1,000 is larger than the training data (100 samples)") &&
                 Contains("write 100 or less"));
  CHECK_THAT(
      problems_with({"loader.batch_size=64", "trainer.devices=2"}, {.samples = 100, .classes = 10}),
      Contains("a batch of 64 x 2 devices is larger") && Contains("write 50 or less"));
}

TEST_CASE("class count: class weights and k of top-k must fit the data", "[spec]") {
  CHECK_THAT(problems_with({"loss={type: cross_entropy, weight: [1, 2]}"},
                           {.samples = 1000, .classes = 10}),
             Contains("the loss needs 10 weights, one per class of the data, got 2"));
  CHECK_THAT(
      problems_with({"metrics=[{type: top_k_accuracy, k: 11}]"}, {.samples = 1000, .classes = 10}),
      Contains("k is 11, but the data has 10 classes"));
  CHECK(problems_with({"metrics=[{type: top_k_accuracy, k: 10}]"}, {.samples = 1000, .classes = 10})
            .empty());
}

TEST_CASE("metrics: average=binary requires two classes", "[spec]") {
  for (const std::string type : {"precision", "recall", "f1"}) {
    const std::string metrics = "metrics=[accuracy, {type: " + type + ", average: ";
    CHECK_THAT(problems_with({metrics + "binary}]"}, {.samples = 1000, .classes = 10}),
               Contains("'average: binary' needs two classes, but the data has 10 classes") &&
                   Contains("write macro"));
    CHECK_THAT(problems_with({metrics + "binary}]"}, {.samples = 1000, .classes = 1}),
               Contains("the data has 1 class") && !Contains("1 classes"));
    CHECK(problems_with({metrics + "binary}]"}, {.samples = 1000, .classes = 2}).empty());
    CHECK(problems_with({metrics + "binary}]"}, {.samples = 1000, .classes = 0}).empty());
    CHECK(problems_with({metrics + "macro}]"}, {.samples = 1000, .classes = 10}).empty());
  }
}

TEST_CASE("warm-up: a length in steps is compared with the steps of the data", "[spec]") {
  const std::string warm = "scheduler={type: constant, warmup: 50, interval: step}";
  CHECK_THAT(problems_with({warm}, {.samples = 640, .classes = 10}),
             Contains("the warm-up of 50 steps must be shorter than the run of 50 steps"));
  CHECK(problems_with({warm}, {.samples = 704, .classes = 10}).empty());
  CHECK_THAT(
      problems_with({warm, "trainer.limit_train_batches=0.5"}, {.samples = 704, .classes = 10}),
      Contains("run of 25 steps"));
}

TEST_CASE("warm-up: the run length depends on max_epochs, max_steps and every batch limit",
          "[spec]") {
  const SplitFacts facts{.samples = 60'000, .classes = 10};
  const auto cosine = [](int warmup) {
    return "scheduler={type: cosine_annealing_lr, interval: step, warmup: " +
           std::to_string(warmup) + "}";
  };
  CHECK_THAT(problems_with(
                 {cosine(50), "trainer.max_steps=100000", "trainer.limit_train_batches=10"}, facts),
             Contains("the warm-up of 50 steps must be shorter than the run of 50 steps"));
  CHECK_THAT(problems_with({cosine(100), "trainer.overfit_batches=1"}, facts),
             Contains("than the run of 5 steps"));
  CHECK_THAT(problems_with({cosine(100), "trainer.accumulate_grad_batches=100"}, facts),
             Contains("than the run of 50 steps"));
  CHECK_THAT(
      problems_with({"scheduler={type: constant, warmup: 2}", "trainer.max_steps=900"}, facts),
      Contains("the warm-up of 2 epochs must be shorter than the run of 1 epoch"));
  CHECK(problems_with({cosine(100), "trainer.max_steps=101"}, facts).empty());
}

TEST_CASE("scheduler: with max_time alone, the length of the schedule must be set", "[spec]") {
  for (const std::string type :
       {"cosine_annealing_lr", "linear_lr", "polynomial_lr", "one_cycle_lr", "wsd"}) {
    INFO(type);
    const bool has_iters = type == "linear_lr" || type == "polynomial_lr";
    const std::string scheduler =
        "scheduler={type: " + type + (has_iters ? ", total_iters: auto}" : "}");
    CHECK_THAT(problems_of({"~trainer.max_epochs", "trainer.max_time=1h", scheduler}),
               Contains("is unknown if only trainer.max_time is set"));
    CHECK(problems_with({"~trainer.max_epochs", "trainer.max_steps=9", scheduler},
                        {.samples = 640, .classes = 10})
              .empty());
  }
  CHECK(problems_of({"~trainer.max_epochs", "trainer.max_time=1h", "scheduler=linear_lr"}).empty());
}

TEST_CASE("fast_dev_run: the schedule has the length of the whole run", "[spec]") {
  const trainctl::spec::Experiment experiment =
      load_valid(
          {"trainer.fast_dev_run=true", "scheduler={type: constant, interval: step, warmup: 50}"})
          .experiment;
  const trainctl::spec::RunLength length = schedule_length(experiment, 640, 1);
  CHECK(length.epochs == 5);
  CHECK(length.steps == 50);
  CHECK(train_batches(experiment, 640, 1) == 1);
  CHECK(schedule_length(experiment, std::nullopt, 1).steps == std::nullopt);
}

TEST_CASE("lenet: requires images of 28x28 or 32x32", "[spec]") {
  const auto with_image = [](std::int64_t side) {
    return problems_with({"model=lenet"},
                         {.samples = 1000, .classes = 10, .image = ImageSize{side, side}});
  };
  CHECK_THAT(with_image(8), Contains("the images are 8x8, but lenet needs 28x28 or 32x32"));
  CHECK(with_image(28).empty());
  CHECK(with_image(32).empty());
  CHECK(problems_with({"model=mlp"}, {.samples = 1000, .classes = 10, .image = ImageSize{8, 8}})
            .empty());
}

TEST_CASE("models: samples of a kind that the model does not take are an error with alternatives",
          "[spec]") {
  const auto with = [](const std::string& model, Inputs inputs) {
    return problems_with(
        {"model=" + model},
        {.samples = 1000, .classes = 10, .kind = SampleKind{inputs, Targets::classes}});
  };
  for (const char* model : {"mlp", "linear", "lenet"}) CHECK(with(model, Inputs::images).empty());
  CHECK(with("mlp", Inputs::numbers).empty());
  CHECK(with("linear", Inputs::numbers).empty());
  CHECK(with("gpt", Inputs::tokens).empty());
  CHECK_THAT(with("lenet", Inputs::numbers),
             Contains("model=lenet") &&
                 Contains("the model 'lenet' takes images, but the samples "
                          "of dataset.train are rows of numbers") &&
                 Contains("choose model mlp or linear"));
  for (const char* model : {"resnet50", "resnet_cifar", "mobilenet_v3_large", "efficientnet_b0"}) {
    CHECK(with(model, Inputs::images).empty());
    CHECK_THAT(with(model, Inputs::numbers), Contains("takes images, but the samples"));
  }
  CHECK_THAT(with("mlp", Inputs::tokens),
             Contains("the model 'mlp' takes images or rows of numbers, but the samples of "
                      "dataset.train are tokens") &&
                 Contains("choose model gpt"));
  CHECK_THAT(
      with("gpt", Inputs::images),
      Contains("the model 'gpt' takes tokens, but the samples of dataset.train are images") &&
          Contains("choose a dataset of type tokens or text, or another model"));
}

TEST_CASE("token targets: a loss or metric that does not support sequences is an error", "[spec]") {
  const SplitFacts facts{
      .samples = 1000, .classes = 50, .kind = SampleKind{Inputs::tokens, Targets::tokens}};
  CHECK(problems_with({"model=gpt", "metrics=[perplexity]"}, facts).empty());
  CHECK_THAT(problems_with({"model=gpt"}, facts),
             Contains("the metric 'accuracy' takes classes, but the labels of dataset.train are "
                      "tokens"));
  CHECK_THAT(problems_with({"model=gpt", "loss=mse", "~metrics"}, facts),
             Contains("the loss 'mse' takes classes, but the labels of dataset.train are tokens") &&
                 Contains("such as cross_entropy"));
}

TEST_CASE("numeric targets: a classification loss or metric is an error", "[spec]") {
  const SplitFacts facts{.samples = 1000, .kind = SampleKind{Inputs::numbers, Targets::numbers}};
  const std::string problems = problems_with({"metrics=[accuracy, top_k_accuracy]"}, facts);
  CHECK_THAT(problems, Contains("the loss 'cross_entropy' takes classes, but the labels of "
                                "dataset.train are numbers") &&
                           Contains("such as mse") &&
                           Contains("the metric 'accuracy' takes classes") &&
                           Contains("the metric 'top_k_accuracy' takes classes"));
  CHECK_THAT(problems_with({"loss={type: cross_entropy, label_smoothing: 0.1}"}, facts),
             Contains("loss={type: cross_entropy"));
  CHECK(problems_with({"loss=mse", "~metrics"}, facts).empty());
  CHECK(problems_with(
            {"loss=mse"},
            {.samples = 1000, .classes = 10, .kind = SampleKind{Inputs::numbers, Targets::classes}})
            .empty());
}

TEST_CASE("numeric targets: binary losses accept classification metrics", "[spec]") {
  const SplitFacts facts{.samples = 1000, .kind = SampleKind{Inputs::numbers, Targets::numbers}};
  const std::string metrics = "metrics=[accuracy, precision, recall, f1, auroc, mae]";
  for (const std::string loss : {"loss=bce_with_logits", "loss=focal"})
    CHECK(problems_with({loss, metrics}, facts).empty());
  for (const std::string loss :
       {"loss=mse", "loss=kl_div_with_logits", "loss={type: cross_entropy, soft_targets: true}"}) {
    const std::string problems = problems_with({loss, metrics}, facts);
    for (const std::string type : {"accuracy", "precision", "recall", "f1", "auroc"})
      CHECK_THAT(problems,
                 Contains("the metric '" + type +
                          "' takes classes, but the labels of dataset.train are numbers"));
    CHECK_THAT(problems, !Contains("'mae'"));
    CHECK_THAT(problems,
               Contains("remove the metric") && Contains("or choose a loss with binary targets: "
                                                         "bce_with_logits, focal"));
  }
  CHECK_THAT(
      problems_with({"loss=bce_with_logits", "metrics=[top_k_accuracy]"}, facts),
      Contains("the metric 'top_k_accuracy' takes classes") && !Contains("or choose a loss"));
}

TEST_CASE("metrics: threshold requires binary targets, average=binary requires classes", "[spec]") {
  const SplitFacts answers{.samples = 1000, .kind = SampleKind{Inputs::numbers, Targets::numbers}};
  const SplitFacts classes{
      .samples = 1000, .classes = 2, .kind = SampleKind{Inputs::numbers, Targets::classes}};
  const std::string loss = "loss=bce_with_logits";
  for (const std::string type : {"accuracy", "precision", "recall", "f1"}) {
    const std::string metric = "metrics=[{type: " + type + ", threshold: 0.3}]";
    CHECK(problems_with({loss, metric}, answers).empty());
    CHECK_THAT(
        problems_with({loss, metric}, classes),
        Contains("'threshold' applies only to binary targets, but the labels of dataset.train are "
                 "classes") &&
            Contains("remove it"));
  }
  const std::string binary = "metrics=[{type: f1, average: binary}]";
  CHECK(problems_with({loss, binary}, classes).empty());
  CHECK_THAT(
      problems_with({loss, binary}, answers),
      Contains("'average: binary' needs two classes, but the labels of dataset.train are numbers"));
  CHECK_THAT(problems_of({"metrics=[{type: accuracy, threshold: 1}]"}), Contains("threshold"));
}

TEST_CASE("task: one that does not fit the samples or the loss is an error with a remedy") {
  const SplitFacts images{
      .samples = 1000, .classes = 10, .kind = SampleKind{Inputs::images, Targets::classes}};
  const SplitFacts tokens{
      .samples = 1000, .classes = 50, .kind = SampleKind{Inputs::tokens, Targets::tokens}};
  CHECK(problems_with({"task=classification", "model=mlp"}, images).empty());
  CHECK(problems_with({"task=auto", "model=mlp"}, images).empty());
  CHECK_THAT(problems_with({"task=regression", "model=mlp"}, images),
             Contains("the task 'regression' takes numbers, but the labels of dataset.train are "
                      "classes") &&
                 Contains("choose another task, or remove the key"));
  CHECK_THAT(problems_with({"task=masked_language_modeling", "model=mlp"}, images),
             Contains("takes tokens, but the labels of dataset.train are classes"));
  const std::vector<std::string> same{"task=reconstruction", "model=mlp", "~metrics"};
  CHECK_THAT(problems_with(same, images),
             Contains("the loss 'cross_entropy' takes classes, but the targets of the task "
                      "'reconstruction' are numbers") &&
                 Contains("such as mse"));
  CHECK(problems_with({"task=reconstruction", "model=mlp", "loss=mse", "metrics=[mae]"}, images)
            .empty());
  CHECK_THAT(problems_with({"task=reconstruction", "model=gpt", "loss=mse", "~metrics"}, tokens),
             Contains("takes images or rows of numbers") && Contains("masked_language_modeling"));
  CHECK_THAT(problems_with({"task={type: masked_language_modeling, mask_token: 50}", "model=gpt",
                            "metrics=[perplexity]"},
                           tokens),
             Contains("mask_token is 50, but the data has 50 tokens"));
  CHECK_THAT(
      problems_with(
          {"task={type: distillation, teacher: gpt, weights: t.safetensors}", "model=mlp"}, images),
      Contains("the teacher 'gpt' does not take images"));
}

TEST_CASE("task: the model is checked with the outputs that the task needs") {
  using trainctl::spec::ModelInput;
  const ModelInput images{{Inputs::images, Targets::classes}, {1, 8, 8}, 10};
  const auto problems = [&](const std::string& model) {
    trainctl::config::Diagnostics diagnostics;
    trainctl::spec::check_model(
        load_valid({"task=reconstruction", "loss=mse", "~metrics", "model=" + model}), images,
        diagnostics);
    return diagnostics.render();
  };
  CHECK(problems("{type: sequential, layers: [flatten, linear]}").empty());
  CHECK_THAT(problems("{type: sequential, layers: [flatten, {type: linear, out_features: 10}]}"),
             Contains("outputs the shape 10, but the data requires 64"));
}

TEST_CASE("masked_language_modeling: a model that sees only one side is a warning") {
  const trainctl::spec::ModelInput tokens{{Inputs::tokens, Targets::tokens}, {8}, 50};
  const auto problems = [&](const std::string& model) {
    trainctl::config::Diagnostics diagnostics;
    trainctl::spec::check_model(
        load_valid({"task=masked_language_modeling", "~metrics", "model=" + model}), tokens,
        diagnostics);
    return diagnostics.render();
  };
  CHECK(problems("bert").empty());
  for (const char* model : {"gpt", "lstm_lm"})
    CHECK_THAT(problems(model),
               Contains("warning") && Contains("sees only the tokens before a hidden one"));
}

TEST_CASE("gan: what does not fit is reported all at once, also in the discriminator") {
  const std::string networks = "model=dcgan_generator";
  const std::string task =
      "task={type: gan, discriminator: dcgan_discriminator, optimizer: {type: sgd, lr: 0.1}}";
  CHECK(problems_of({task, networks, "~metrics"}) == "");
  const std::string found = problems_of(
      {"task={type: gan, discriminator: {type: dcgan_discriminator, channels: 0}, optimizer: "
       "{type: sgd, lr: 0.1, nesterov: true, groups: [{match: [bias], optimizer: adam, scheduler: "
       "constant}]}, loss: wgan, r1_weight: -1, latent_size: 0}",
       networks, "loss=mse", "trainer.precision=16-mixed", "trainer.accumulate_grad_batches=2",
       "trainer.skip_nonfinite_steps=3", "distributed={type: local_sgd, sync_every: 4}"});
  for (const char* part :
       {"'channels' must be at least 1", "nesterov needs momentum above 0", "got 'wgan'",
        "'r1_weight' must be at least 0", "'latent_size' must be at least 1",
        "has its own loss, task.loss", "has no targets for metrics",
        "does not scale its discriminator's loss", "cannot be accumulated", "cannot be skipped",
        "local_sgd shares none", "keeps the learning rates of its discriminator"})
    CHECK_THAT(found, Contains(part));
  const SplitFacts images{
      .samples = 1000, .classes = 10, .kind = SampleKind{Inputs::images, Targets::classes}};
  CHECK(problems_with({task, networks, "~metrics"}, images).empty());
  CHECK_THAT(problems_with({task, "model=resnet18", "~metrics"}, images),
             Contains("the model 'resnet18' takes images"));
  CHECK_THAT(
      problems_with({"task={type: gan, discriminator: gpt, optimizer: adam}", networks, "~metrics"},
                    images),
      Contains("the discriminator 'gpt' does not take images"));
  const auto problems_of_size = [&](std::int64_t side) {
    trainctl::config::Diagnostics diagnostics;
    trainctl::spec::check_model(
        load_valid({task, networks, "~metrics"}),
        trainctl::spec::ModelInput{{Inputs::images, Targets::classes}, {1, side, side}, 10},
        diagnostics);
    return diagnostics.render();
  };
  CHECK(problems_of_size(28).empty());
  CHECK_THAT(problems_of_size(48),
             Contains("48x48, but dcgan_generator needs 28x28, 32x32 or 64x64 pixels") &&
                 Contains("48x48, but dcgan_discriminator needs"));
}
