#include "spec/check_data.hpp"

#include "base/strings.hpp"
#include "spec/checker.hpp"
#include "spec/loss/cross_entropy.hpp"
#include "spec/metric/top_k_accuracy.hpp"
#include "spec/sampler/class_balanced.hpp"
#include "spec/sampler/weighted_random.hpp"
#include "spec/scheduler/warmup.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::spec {
namespace {

void check_batch(Checker& checker, std::int64_t samples) {
  const Experiment& experiment = checker.experiment();
  const std::int64_t batch = experiment.loader.batch_size;
  const std::int64_t ranks = experiment.trainer.devices.value_or(1);
  if (batch * ranks <= samples) return;
  const std::string product = ranks == 1 ? "" : fmt::format(" x {} devices", ranks);
  checker.error("loader.batch_size",
                fmt::format("a batch of {}{} is larger than the training data: {} samples", with_thousands(batch),
                            product, with_thousands(samples)),
                fmt::format("write {} or less", std::max<std::int64_t>(1, samples / ranks)));
}

void check_classes(Checker& checker, std::int64_t classes) {
  const Experiment& experiment = checker.experiment();
  if (experiment.loss.options_type == typeid(loss::CrossEntropy)) {
    const std::size_t weights = experiment.loss.as<loss::CrossEntropy>().weight.size();
    if (weights != 0 && static_cast<std::int64_t>(weights) != classes) {
      checker.error("loss.weight", fmt::format("the loss has {} weights, but the data {} classes", weights, classes),
                    "give one for every class");
    }
  }
  for (std::size_t i = 0; i < experiment.metrics.size(); ++i) {
    if (experiment.metrics[i].options_type != typeid(metric::TopKAccuracy)) continue;
    const int k = experiment.metrics[i].as<metric::TopKAccuracy>().k;
    if (k <= classes) continue;
    checker.error(fmt::format("metrics.{}.k", i), fmt::format("k is {}, but the data has {} classes", k, classes),
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
    checker.error("loader.sampler", "samples are drawn by their classes, and this data has none", "remove 'sampler'");
    return;
  }
  if (stage.options_type != typeid(sampler::WeightedRandom)) return;
  const std::size_t weights = stage.as<sampler::WeightedRandom>().weights.size();
  if (static_cast<std::int64_t>(weights) == classes) return;
  checker.error("loader.sampler.weights",
                fmt::format("the sampler has {} weights, but the data {} classes", weights, classes),
                "give one for every class");
}

std::int64_t steps_per_epoch(const Experiment& experiment, std::int64_t samples) {
  const std::int64_t global = experiment.loader.batch_size * experiment.trainer.devices.value_or(1);
  const std::int64_t whole = experiment.loader.drop_last ? samples / global : (samples + global - 1) / global;
  const std::int64_t batches = experiment.trainer.limit_train_batches.of(whole);
  const std::int64_t together = experiment.trainer.accumulate_grad_batches;
  return (batches + together - 1) / together;
}

}  // namespace

void check_against_data(const Loaded& loaded, const SplitFacts& train, config::Diagnostics& diagnostics) {
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  const std::int64_t samples = epoch_samples(loaded.experiment, train.samples);
  check_batch(checker, samples);
  check_sampler(checker, train.classes);
  if (train.classes > 0) check_classes(checker, train.classes);
  const Trainer& trainer = loaded.experiment.trainer;
  if (trainer.max_steps) return;
  const std::int64_t steps = steps_per_epoch(loaded.experiment, samples) * trainer.max_epochs;
  check_scheduler(checker, {.epochs = trainer.max_epochs, .steps = steps});
}

}  // namespace trainctl::spec
