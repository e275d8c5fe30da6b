#include "spec/check_data.hpp"

#include "base/strings.hpp"
#include "spec/checker.hpp"
#include "spec/loss/cross_entropy.hpp"
#include "spec/metric/top_k_accuracy.hpp"
#include "spec/model/lenet.hpp"
#include "spec/placement.hpp"
#include "spec/sampler/class_balanced.hpp"
#include "spec/sampler/weighted_random.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::spec {
namespace {

void check_batch(Checker& checker, std::int64_t samples, int ranks) {
  const std::int64_t batch = checker.experiment().loader.batch_size;
  const bool readable =
      checker.sound({"loader.batch_size", "trainer.devices", "trainer.accelerator"});
  if (!readable || batch * ranks <= samples) return;
  const std::string product = ranks == 1 ? "" : fmt::format(" x {} devices", ranks);
  checker.error("loader.batch_size",
                fmt::format("a batch of {}{} is larger than the training data: {} samples",
                            with_thousands(batch), product, with_thousands(samples)),
                fmt::format("write {} or less", std::max<std::int64_t>(1, samples / ranks)));
}

void check_classes(Checker& checker, std::int64_t classes) {
  const Experiment& experiment = checker.experiment();
  if (experiment.loss.options_type == typeid(loss::CrossEntropy) && checker.sound("loss")) {
    const std::size_t weights = experiment.loss.as<loss::CrossEntropy>().weight.size();
    if (weights != 0 && static_cast<std::int64_t>(weights) != classes) {
      checker.error(
          "loss.weight",
          fmt::format("the loss has {} weights, but the data {} classes", weights, classes),
          "give one for every class");
    }
  }
  for (std::size_t i = 0; i < experiment.metrics.size(); ++i) {
    const std::string path = fmt::format("metrics.{}", i);
    if (experiment.metrics[i].options_type != typeid(metric::TopKAccuracy) || !checker.sound(path))
      continue;
    const int k = experiment.metrics[i].as<metric::TopKAccuracy>().k;
    if (k <= classes) continue;
    checker.error(path + ".k", fmt::format("k is {}, but the data has {} classes", k, classes),
                  fmt::format("write {} or less", std::max<std::int64_t>(1, classes - 1)));
  }
}

/// Samples of an epoch: a sampler may draw another number than there are.
std::int64_t epoch_samples(const Experiment& experiment, std::int64_t samples) {
  const config::Stage& stage = experiment.loader.sampler;
  if (stage.options_type == typeid(sampler::WeightedRandom))
    return stage.as<sampler::WeightedRandom>().num_samples.value_or(samples);
  if (stage.options_type == typeid(sampler::ClassBalanced))
    return stage.as<sampler::ClassBalanced>().num_samples.value_or(samples);
  return samples;
}

void check_sampler(Checker& checker, std::int64_t classes) {
  const config::Stage& stage = checker.experiment().loader.sampler;
  if (!stage) return;
  if (classes == 0) {
    checker.error("loader.sampler", "samples are drawn by their classes, and this data has none",
                  "remove 'sampler'");
    return;
  }
  if (stage.options_type != typeid(sampler::WeightedRandom)) return;
  const std::size_t weights = stage.as<sampler::WeightedRandom>().weights.size();
  if (static_cast<std::int64_t>(weights) == classes) return;
  checker.error(
      "loader.sampler.weights",
      fmt::format("the sampler has {} weights, but the data {} classes", weights, classes),
      "give one for every class");
}

void check_model(Checker& checker, const ImageSize& image) {
  const config::Stage& model = checker.experiment().model;
  if (model.options_type != typeid(model::Lenet) || !checker.sound("model.type")) return;
  if (model::Lenet::takes(image.height, image.width)) return;
  checker.error(
      "model",
      fmt::format("the images are {}x{}: lenet needs 28x28 or 32x32", image.height, image.width),
      "let a transform bring them to that size, or choose model mlp");
}

void check_length(Checker& checker, std::optional<std::int64_t> samples, int ranks) {
  const bool knows_epoch =
      checker.sound({"loader.batch_size", "loader.drop_last", "trainer.devices",
                     "trainer.accelerator", "trainer.limit_train_batches",
                     "trainer.overfit_batches", "trainer.accumulate_grad_batches"});
  check_scheduler(
      checker, schedule_length(checker.experiment(), knows_epoch ? samples : std::nullopt, ranks));
}

}  // namespace

void check_against_data(const Loaded& loaded, const std::optional<SplitFacts>& train,
                        config::Diagnostics& diagnostics) {
  if (loaded.tree.broken) return;
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  const int ranks = placement_of(loaded.experiment.trainer, read_machine()).ranks;
  std::optional<std::int64_t> samples;
  if (train) {
    samples = epoch_samples(loaded.experiment, train->samples);
    check_batch(checker, *samples, ranks);
    check_sampler(checker, train->classes);
    if (train->classes > 0) check_classes(checker, train->classes);
    if (train->image) check_model(checker, *train->image);
  }
  check_length(checker, samples, ranks);
}

}  // namespace trainctl::spec
