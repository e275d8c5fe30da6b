#include "spec/check_data.hpp"

#include "base/strings.hpp"
#include "spec/checker.hpp"
#include "spec/loss/cross_entropy.hpp"
#include "spec/metric/top_k_accuracy.hpp"
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

}  // namespace

void check_against_data(const Loaded& loaded, const SplitFacts& train, config::Diagnostics& diagnostics) {
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  check_batch(checker, train.samples);
  if (train.classes > 0) check_classes(checker, train.classes);
  const Trainer& trainer = loaded.experiment.trainer;
  if (trainer.max_steps) return;
  check_scheduler(checker, schedule_length(loaded.experiment, train.samples, trainer.devices.value_or(1)));
}

}  // namespace trainctl::spec
