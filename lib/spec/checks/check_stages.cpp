#include "base/strings.hpp"
#include "base/url.hpp"
#include "config/wording.hpp"
#include "spec/checks/checks.hpp"
#include "spec/compatibility.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/options/base_of.hpp"
#include "spec/options/dataset.hpp"
#include "spec/options/loss.hpp"
#include "spec/options/metric.hpp"
#include "spec/options/model.hpp"
#include "spec/options/optimizer.hpp"
#include "spec/options/scheduler.hpp"
#include "spec/options/stopper.hpp"
#include "spec/options/task.hpp"
#include "spec/options/transform.hpp"
#include "spec/plugins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace trainctl::spec {
namespace {

void check_nesterov(Checker& checker, const config::Stage& stage, const std::string& path) {
  const auto* sgd = stage.get_if<optimizer::Sgd>();
  if (sgd == nullptr || !sgd->nesterov) return;
  if (!checker.is_valid(path + ".momentum") || !checker.is_valid(path + ".dampening")) return;
  if (sgd->momentum == 0) {
    checker.error(path + ".nesterov", "nesterov needs momentum above 0", "add 'momentum: 0.9'");
  } else if (sgd->dampening != 0) {
    checker.error(path + ".nesterov",
                  fmt::format("nesterov needs dampening 0, got {}", sgd->dampening),
                  "remove 'dampening'");
  }
}

/// A group's scheduler sets one rate and nothing else.
bool sets_more_than_rate(const config::Stage& scheduler) {
  const auto* sequence = scheduler.get_if<scheduler::SequentialLr>();
  return scheduler.options_type == typeid(scheduler::ReduceLrOnPlateau) ||
         scheduled_momentum(scheduler) ||
         (sequence != nullptr && std::ranges::any_of(sequence->schedulers, sets_more_than_rate));
}

/// Checks an optimizer and those of its groups.
void check_optimizer(Checker& checker, const config::Stage& stage, const std::string& path) {
  check_nesterov(checker, stage, path);
  const auto* base = base_of<optimizer::Base>(stage);
  if (base == nullptr || !checker.is_valid(path + ".groups")) return;
  for (std::size_t i = 0; i < base->groups.size(); ++i) {
    const optimizer::ParameterRule& group = base->groups[i];
    const std::string place = fmt::format("{}.groups.{}", path, i);
    if (group.optimizer && (group.lr_scale != 1 || group.weight_decay)) {
      checker.error(place + ".optimizer",
                    "a group with 'optimizer' takes learning rate and weight decay from there",
                    "remove 'lr_scale' and 'weight_decay' from the group");
    } else if (group.scheduler && !group.optimizer) {
      checker.error(place + ".scheduler", "a group with 'scheduler' needs its own 'optimizer'",
                    "add 'optimizer', or remove 'scheduler'");
    } else if (group.scheduler && sets_more_than_rate(group.scheduler)) {
      checker.error(place + ".scheduler",
                    "the scheduler of a group must not monitor a value or set the momentum",
                    "choose another one, or make it the scheduler of the experiment");
    }
    check_optimizer(checker, group.optimizer, place + ".optimizer");
  }
}

void check_loss(Checker& checker) {
  const auto* options = checker.experiment().loss.get_if<loss::CrossEntropy>();
  if (options == nullptr || !checker.is_valid("loss.weight")) return;
  const std::vector<double>& weight = options->weight;
  if (weight.empty() || std::ranges::any_of(weight, [](double one) { return one > 0; })) return;
  checker.error("loss.weight", "loss weights must not all be 0",
                "set a weight above 0 for at least one class");
}

/// A sequential model says its last layer; a user's own module may end in anything.
bool may_end_in_log_softmax(const Experiment& experiment) {
  const config::Stage& model = experiment.model;
  if (const auto* sequential = model.get_if<model::Sequential>())
    return sequential->layers.back().type == "log_softmax";
  return model.get_if<model::Torchscript>() != nullptr || !experiment.plugins.empty();
}

void check_nll(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (experiment.loss.options_type != typeid(loss::Nll) || !checker.is_valid({"loss", "model"}))
    return;
  if (may_end_in_log_softmax(experiment)) return;
  checker.warning("loss",
                  "nll takes log-probabilities, but this model outputs logits: the loss would "
                  "decrease without bound",
                  "choose loss cross_entropy, or end a sequential model with log_softmax");
}

void check_mixing(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  const bool mixes = !experiment.dataset.train.batch_transforms.empty();
  if (!mixes || takes(experiment.loss, MixedLabels{})) return;
  if (!checker.is_valid({"loss", "dataset.train.batch_transforms"})) return;
  checker.error("loss",
                fmt::format("the loss '{}' does not take the mixed labels of "
                            "dataset.train.batch_transforms",
                            experiment.loss.type),
                "choose a loss that takes them (cross_entropy, nll, bce_with_logits), or remove "
                "'batch_transforms'");
}

/// The task trains its discriminator itself, with its own loss, in each batch.
void check_gan(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  const Trainer& trainer = experiment.trainer;
  const auto* gan = experiment.task.get_if<task::Gan>();
  if (gan == nullptr) return;
  check_optimizer(checker, gan->optimizer, "task.optimizer");
  const auto refuse = [&](bool found, const std::string& key, const char* does) {
    if (found && checker.is_valid(key))
      checker.error(key, fmt::format("the task 'gan' {}", does), fmt::format("remove '{}'", key));
  };
  refuse(experiment.loss.options_type != typeid(loss::CrossEntropy), "loss",
         "has its own loss, task.loss");
  refuse(!experiment.metrics.empty(), "metrics", "has no targets for metrics");
  refuse(trainer.precision == Precision::fp16_mixed, "trainer.precision",
         "does not scale its discriminator's loss, which 16-mixed needs");
  refuse(trainer.accumulate_grad_batches > 1, "trainer.accumulate_grad_batches",
         "updates its discriminator with each batch, so batches cannot be accumulated");
  refuse(trainer.skip_nonfinite_steps.value_or(0) > 0, "trainer.skip_nonfinite_steps",
         "updates its discriminator before the generator, so a step cannot be skipped");
  refuse(trainer.test_time_augmentation.has_value(), "trainer.test_time_augmentation",
         "evaluates images that it makes, which cannot be augmented");
  refuse(experiment.distributed.type == Strategy::local_sgd, "distributed.type",
         "shares its discriminator's gradients, but local_sgd shares none");
  const auto* optimizer = base_of<optimizer::Base>(gan->optimizer);
  for (std::size_t i = 0; optimizer != nullptr && i < optimizer->groups.size(); ++i)
    refuse(bool{optimizer->groups[i].scheduler},
           fmt::format("task.optimizer.groups.{}.scheduler", i),
           "keeps the learning rates of its discriminator");
}

void check_normalize(Checker& checker, const std::string& path, const DataSplit& split) {
  for (std::size_t i = 0; i < split.transforms.size(); ++i) {
    const std::string place = fmt::format("{}.transforms.{}", path, i);
    const auto* options = split.transforms[i].get_if<transform::Normalize>();
    if (options == nullptr || options->mean.size() == options->std.size()) continue;
    if (!checker.is_valid(place)) continue;
    checker.error(place + ".std",
                  fmt::format("normalize needs as many values in 'std' as in 'mean' ({}), got {}",
                              options->mean.size(), options->std.size()),
                  "write one value per channel in both");
  }
}

bool same(const config::Node& a, const config::Node& b) {
  return a.type == b.type && a.text == b.text && std::ranges::equal(a.items, b.items, same) &&
         std::ranges::equal(a.entries, b.entries,
                            [](const config::Entry& x, const config::Entry& y) {
                              return x.key == y.key && same(x.value, y.value);
                            });
}

// Returns the tree of the split's normalize transform; null if it has none.
config::Node normalization_of(const DataSplit& split) {
  for (const config::Stage& stage : split.transforms) {
    if (stage.options_type == typeid(transform::Normalize)) return config::write_stage(stage);
  }
  return {};
}

// Returns the table options of a data set; null if it is not a table.
const dataset::Table* table_of(const config::Stage& stage) {
  if (const auto* csv = stage.get_if<dataset::Csv>()) return csv;
  return stage.get_if<dataset::Parquet>();
}

void check_standardized(Checker& checker) {
  const Dataset& data = checker.experiment().dataset;
  const dataset::Table* train = table_of(data.train.dataset);
  const dataset::Table* val = table_of(data.val->dataset);
  if (train == nullptr || val == nullptr) return;
  const bool same_numbers = !train->standardize || train->statistics_from == val->statistics_from;
  if (train->standardize == val->standardize && same_numbers) return;
  checker.warning("dataset.val", "dataset.val standardizes its rows differently from dataset.train",
                  "set 'standardize' and 'statistics_from' to the same values in both splits");
}

void check_splits(Checker& checker) {
  const Dataset& data = checker.experiment().dataset;
  check_normalize(checker, "dataset.train", data.train);
  if (data.val) check_normalize(checker, "dataset.val", *data.val);
  if (data.test) check_normalize(checker, "dataset.test", *data.test);
  if (!data.val || !checker.is_valid("dataset") || !data.train.dataset || !data.val->dataset)
    return;
  if (!same(normalization_of(data.train), normalization_of(*data.val))) {
    checker.warning("dataset.val",
                    "dataset.val normalizes its samples differently from dataset.train",
                    "use the same 'normalize' in both splits");
  }
  check_standardized(checker);
  if (!data.val->part &&
      same(config::write_stage(data.train.dataset), config::write_stage(data.val->dataset))) {
    checker.warning("dataset.val", "validation uses the training samples",
                    "set another split in dataset.val, e.g. 'split: test'");
  }
}

void check_metrics(Checker& checker) {
  std::map<std::string, int> seen;
  const std::vector<config::Stage>& metrics = checker.experiment().metrics;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const std::string path = fmt::format("metrics.{}", i);
    if (metrics[i] && checker.is_valid(path) && seen[metric_name(metrics[i])]++ > 0) {
      checker.error(path, fmt::format("the metric '{}' is listed twice", metric_name(metrics[i])),
                    "remove one of them");
    }
  }
}

void check_cache(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (experiment.dataset.cache.mode != CacheMode::device || !checker.is_valid("dataset.cache"))
    return;
  if (checker.is_valid("trainer") && experiment.trainer.accelerator == Accelerator::cpu) {
    checker.error("dataset.cache.mode",
                  "'device' caches images in GPU memory, but trainer.accelerator is cpu",
                  "write 'mode: decoded' to cache them in host memory");
  }
  if (!experiment.dataset.train.batch_transforms.empty()) {
    checker.error("dataset.cache.mode",
                  "'mode: device' cannot be combined with batch_transforms, which mix pixels",
                  "remove dataset.train.batch_transforms, or write 'mode: decoded'");
  }
}

void check_endpoint(Checker& checker, const std::string& endpoint) {
  const auto error = [&](const char* message, const char* hint) {
    checker.error("dataset.remote.endpoint", message, hint);
  };
  if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://"))
    error("the address of an S3 server must start with http:// or https://",
          "write it as http://localhost:9000");
  if (endpoint.find('@') != std::string::npos)
    error("an address must not contain a user or password",
          "remove the part before the '@', and write access_key and secret_key as "
          "${secret:NAME}");
  if (endpoint.find_first_of("?#") != std::string::npos)
    error("an address must not contain a query or fragment", "remove the part from '?' or '#'");
}

void check_remote(Checker& checker) {
  const Dataset& data = checker.experiment().dataset;
  if (checker.is_valid("dataset.cache") && data.cache.local && is_remote(*data.cache.local)) {
    checker.error("dataset.cache.local",
                  "the folder for local copies must be local, got a remote one",
                  "write a folder of a local disk");
  }
  const Remote& remote = data.remote;
  if (remote.endpoint) check_endpoint(checker, *remote.endpoint);
  if (!checker.is_valid("dataset.remote")) return;
  if (remote.access_key.has_value() == remote.secret_key.has_value()) return;
  checker.error(remote.access_key ? "dataset.remote.access_key" : "dataset.remote.secret_key",
                "'access_key' and 'secret_key' must be set together", "set both, or neither");
}

/// Returns whether the data set draws its samples by the weights of their sources.
bool is_weighted(const config::Stage& dataset) {
  if (const auto* concat = dataset.get_if<dataset::Concat>()) return !concat->weights.empty();
  const auto* subset = dataset.get_if<dataset::Subset>();
  return subset != nullptr && is_weighted(subset->source);
}

/// An evaluation reads every sample once.
void check_evaluated_weights(Checker& checker) {
  const Dataset& data = checker.experiment().dataset;
  for (const auto& [path, split] :
       {std::pair("dataset.val", &data.val), {"dataset.test", &data.test}}) {
    if (!*split || (*split)->part || !is_weighted((*split)->dataset)) continue;
    checker.error(path,
                  "'weights' apply only to dataset.train: an evaluation reads every sample once",
                  "remove 'weights'");
  }
}

void check_sampler(Checker& checker) {
  const Loader& loader = checker.experiment().loader;
  if (is_weighted(checker.experiment().dataset.train.dataset) &&
      (loader.sampler || !loader.shuffle)) {
    const char* key = loader.sampler ? "sampler" : "shuffle";
    return checker.error(fmt::format("loader.{}", key),
                         fmt::format("the 'weights' of dataset.train draw samples at random, which "
                                     "'{}' contradicts",
                                     loader.sampler ? "sampler" : "shuffle: false"),
                         "remove one of them");
  }
  if (!loader.sampler || loader.shuffle) return;
  checker.error("loader.shuffle",
                "'sampler' draws samples at random, but 'shuffle: false' keeps their order",
                "remove one of them");
}

std::string hint_for(const Experiment& experiment, const std::string& monitor) {
  const std::vector<std::string> values = monitored_values(experiment);
  if (monitor.starts_with("val/") && !validates(experiment)) {
    const char* cure =
        experiment.dataset.val ? "raise 'trainer.limit_val_batches'" : "add 'dataset.val'";
    return fmt::format("{}, or monitor one of: {}", cure, config::list_some(values));
  }
  const auto longer = std::ranges::find_if(
      values, [&](const std::string& value) { return value.starts_with(monitor); });
  const auto found = longer != values.end() ? std::optional(*longer) : nearest(monitor, values);
  if (found) return fmt::format("did you mean '{}'? (all: {})", *found, config::list_some(values));
  return fmt::format("available: {}; add others with 'metrics: [...]'", config::list_some(values));
}

// Returns whether `monitor` may mean a metric whose entry could not be read: an existing metric, or
// a listed name.
bool may_be_listed(const Checker& checker, const std::string& monitor) {
  const std::string name = monitor.substr(monitor.find('/') + 1);
  const bool of_a_split = monitor.starts_with("train/") || monitor.starts_with("val/");
  if (!of_a_split || (monitor.starts_with("val/") && !validates(checker.experiment())))
    return false;
  const bool is_top_k = name.starts_with("top_") && name.ends_with("_accuracy");
  if (is_top_k || vocabulary_in_use().find("metric", name) != nullptr) return true;
  const config::Node* listed = checker.find("metrics");
  return listed == nullptr || listed->type != config::Node::Type::list ||
         std::ranges::any_of(listed->items, [&](const config::Node& item) {
           const config::Node* type = item.find("type");
           return (type == nullptr ? item : *type).text == name;
         });
}

void check_monitor(Checker& checker, const std::string& stage, const std::string& monitor,
                   const config::Auto<Mode>& mode) {
  const std::string path = stage + ".monitor";
  const Experiment& experiment = checker.experiment();
  const bool knows_splits = experiment.dataset.train.dataset || experiment.dataset.val;
  if (!checker.is_valid(path) || !knows_splits) return;
  const std::vector<std::string> values = monitored_values(experiment);
  if (std::ranges::find(values, monitor) == values.end()) {
    if (!checker.is_valid("metrics") && may_be_listed(checker, monitor)) return;
    const bool unvalidated = monitor.starts_with("val/") && !validates(experiment);
    return checker.error(path,
                         fmt::format("'{}' is '{}', but {}", path, monitor,
                                     unvalidated ? "this run has no validation"
                                                 : "this run computes no value with this name"),
                         hint_for(experiment, monitor));
  }
  const Mode fitting = mode_for(monitor);
  if (mode.is_auto() || *mode.value == fitting || !checker.is_valid(stage + ".mode")) return;
  if (checker.find(stage + ".mode") == nullptr) {  // the stage has no mode option
    return checker.error(
        path, fmt::format("'{}' must name a loss, got '{}', where higher is better", path, monitor),
        "monitor a loss, such as train/loss");
  }
  checker.error(
      stage + ".mode",
      fmt::format("mode '{}' contradicts '{}', where {} is better", enum_name(*mode.value), monitor,
                  fitting == Mode::min ? "lower" : "higher"),
      fmt::format("write {}, or remove the mode", enum_name(fitting)));
}

void check_monitors(Checker& checker) {
  const Experiment& experiment = checker.experiment();
  if (const auto* patience = experiment.early_stopping.get_if<stopper::Patience>())
    check_monitor(checker, "early_stopping", patience->monitor, patience->mode);
  if (const auto* divergence = experiment.early_stopping.get_if<stopper::Divergence>())
    check_monitor(checker, "early_stopping", divergence->monitor, {Mode::min});
  if (const auto* plateau = experiment.scheduler.get_if<scheduler::ReduceLrOnPlateau>())
    check_monitor(checker, "scheduler", plateau->monitor, plateau->mode);
  const Checkpoint& checkpoint = experiment.checkpoint;
  if (checkpoint.monitor || checker.is_valid("early_stopping")) {
    check_monitor(checker, "checkpoint", checkpoint_monitor(experiment), checkpoint.mode);
  }
}

}  // namespace

void check_stages(Checker& checker) {
  check_monitors(checker);
  check_optimizer(checker, checker.experiment().optimizer, "optimizer");
  check_loss(checker);
  check_nll(checker);
  check_mixing(checker);
  check_gan(checker);
  check_splits(checker);
  check_metrics(checker);
  check_cache(checker);
  check_remote(checker);
  check_sampler(checker);
  check_evaluated_weights(checker);
}

}  // namespace trainctl::spec
