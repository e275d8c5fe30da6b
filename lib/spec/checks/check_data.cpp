#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/checks/checks.hpp"
#include "spec/compatibility.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/load.hpp"
#include "spec/options/loss.hpp"
#include "spec/options/metric.hpp"
#include "spec/options/model.hpp"
#include "spec/options/sampler.hpp"
#include "spec/options/task.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace trainctl::spec {
namespace {

void check_batch(Checker& checker, std::int64_t samples, int ranks) {
  const std::int64_t batch = checker.experiment().loader.batch_size;
  const bool readable =
      checker.is_valid({"loader.batch_size", "loader.drop_last", "trainer.devices",
                        "trainer.num_nodes", "trainer.accelerator"});
  if (!readable || batch * ranks <= samples) return;
  const std::string product = ranks == 1 ? "" : fmt::format(" x {} devices", ranks);
  const std::string larger =
      fmt::format("a batch of {}{} is larger than the training data ({} samples)",
                  with_thousands(batch), product, with_thousands(samples));
  const std::int64_t most = std::max<std::int64_t>(1, samples / ranks);
  if (checker.experiment().loader.drop_last) {
    checker.error("loader.batch_size", larger + ", so drop_last drops every batch",
                  fmt::format("set loader.drop_last=false, or write {} or less", most));
  } else {
    checker.warning("loader.batch_size", larger + ", so each epoch is one incomplete batch",
                    fmt::format("write {} or less for full batches", most));
  }
}

/// Returns the options with the average of precision, recall and f1; null for other metrics.
const metric::Averaged* averaged(const config::Stage& stage) {
  if (const auto* options = stage.get_if<metric::Precision>()) return options;
  if (const auto* options = stage.get_if<metric::Recall>()) return options;
  return stage.get_if<metric::F1>();
}

void check_metric(Checker& checker, const config::Stage& stage, const std::string& path,
                  std::int64_t classes) {
  const auto* top = stage.get_if<metric::TopKAccuracy>();
  if (top != nullptr && top->k > classes) {
    checker.error(path + ".k", fmt::format("k is {}, but the data has {} classes", top->k, classes),
                  fmt::format("write {} or less", std::max<std::int64_t>(1, classes - 1)));
  }
  const metric::Averaged* options = averaged(stage);
  if (options == nullptr || options->average != metric::Average::binary || classes == 2) return;
  checker.error(path + ".average",
                fmt::format("'average: binary' needs two classes, but the data has {} class{}",
                            classes, classes == 1 ? "" : "es"),
                "write macro, weighted or micro");
}

void check_classes(Checker& checker, std::int64_t classes) {
  const Experiment& experiment = checker.experiment();
  const auto* loss = experiment.loss.get_if<loss::CrossEntropy>();
  const std::size_t weights = loss == nullptr ? 0 : loss->weight.size();
  if (weights != 0 && static_cast<std::int64_t>(weights) != classes && checker.is_valid("loss")) {
    checker.error("loss.weight",
                  fmt::format("the loss needs {} weights, one per class of the data, got {}",
                              classes, weights));
  }
  for (std::size_t i = 0; i < experiment.metrics.size(); ++i) {
    const std::string path = fmt::format("metrics.{}", i);
    if (checker.is_valid(path)) check_metric(checker, experiment.metrics[i], path, classes);
  }
}

/// Returns the number of samples per epoch: a sampler may draw more or fewer than the data set has.
std::int64_t epoch_samples(const Experiment& experiment, std::int64_t samples) {
  const config::Stage& stage = experiment.loader.sampler;
  const sampler::Drawn* drawn = stage.get_if<sampler::WeightedRandom>();
  if (drawn == nullptr) drawn = stage.get_if<sampler::ClassBalanced>();
  return drawn == nullptr ? samples : drawn->num_samples.value_or(samples);
}

void check_sampler_classes(Checker& checker, std::int64_t classes) {
  const config::Stage& stage = checker.experiment().loader.sampler;
  if (!stage) return;
  if (classes == 0)
    return checker.error("loader.sampler",
                         "'sampler' draws samples by class, but the data has no classes",
                         "remove 'sampler'");
  const auto* options = stage.get_if<sampler::WeightedRandom>();
  const std::size_t weights = options == nullptr ? 0 : options->weights.size();
  if (options == nullptr || static_cast<std::int64_t>(weights) == classes) return;
  checker.error("loader.sampler.weights",
                fmt::format("the sampler needs {} weights, one per class of the data, got {}",
                            classes, weights));
}

std::string taken_by(const config::Stage& model) {
  std::string all;
  for (const Inputs inputs : {Inputs::images, Inputs::numbers, Inputs::tokens}) {
    if (takes(model, inputs)) all += (all.empty() ? "" : " or ") + std::string(enum_name(inputs));
  }
  return all;
}

void check_inputs(Checker& checker, Inputs inputs) {
  const config::Stage& model = checker.experiment().model;
  if (!model || takes(model, inputs) || !checker.is_valid("model.type")) return;
  const char* hint = "choose model mlp or linear";
  if (inputs == Inputs::tokens)
    hint =
        "choose model gpt or lstm_lm (for a dataset of type tokens), lstm_classifier or bert (for "
        "one of type text), or model sequential with an embedding as its first layer";
  if (takes(model, Inputs::tokens))
    hint = "choose a dataset of type tokens or text, or another model";
  checker.error("model",
                fmt::format("the model '{}' takes {}, but the samples of dataset.train are {}",
                            model.type, taken_by(model), enum_name(inputs)),
                hint);
}

/// The targets of a loss or a metric, and whose they are.
struct TargetsOf {
  Targets targets = Targets::classes;
  std::string owner = "the labels of dataset.train";

  [[nodiscard]] std::string text() const {
    return fmt::format("{} are {}", owner, enum_name(targets));
  }
};

std::string taken_of(const config::Stage& stage) {
  for (const Targets targets : {Targets::classes, Targets::numbers, Targets::tokens}) {
    if (takes(stage, targets)) return enum_name(targets);
  }
  return enum_name(Targets::pixels);
}

/// Returns whether the metric is meaningful for the labels. Assumes that a loss that could not be
/// read is one for yes/no answers.
bool counts(Checker& checker, const config::Stage& stage, Targets targets) {
  if (takes(stage, targets)) return true;
  if (targets != Targets::numbers || !takes(stage, Answers{})) return false;
  return !checker.is_valid("loss") || takes(checker.experiment().loss, Answers{});
}

double threshold_of(const config::Stage& stage) {
  const metric::OfAnswers* options = stage.get_if<metric::Accuracy>();
  if (options == nullptr) options = averaged(stage);
  return options == nullptr ? metric::kEvenChance : options->threshold;
}

/// Checks options that apply only to class labels, or only to yes/no answers.
void check_counting(Checker& checker, const config::Stage& stage, const std::string& path,
                    const TargetsOf& of) {
  if (of.targets != Targets::numbers && threshold_of(stage) != metric::kEvenChance) {
    checker.error(path + ".threshold",
                  fmt::format("'threshold' applies only to binary targets, but {}", of.text()),
                  "remove it");
  }
  const metric::Averaged* options = averaged(stage);
  if (of.targets != Targets::numbers || options == nullptr ||
      options->average != metric::Average::binary)
    return;
  checker.error(path + ".average",
                fmt::format("'average: binary' needs two classes, but {}", of.text()),
                "write macro, weighted or micro");
}

void check_metric_targets(Checker& checker, const config::Stage& stage, const std::string& path,
                          const TargetsOf& of) {
  if (counts(checker, stage, of.targets)) return check_counting(checker, stage, path, of);
  std::string hint = "remove the metric (the loss is always computed)";
  if (of.targets == Targets::numbers && takes(stage, Answers{}))
    hint += ", or choose a loss with binary targets: bce_with_logits, focal";
  checker.error(
      path, fmt::format("the metric '{}' takes {}, but {}", stage.type, taken_of(stage), of.text()),
      hint);
}

/// Reports a loss that takes the value of pixels that do not count for a class.
void check_ignored_pixels(Checker& checker) {
  const config::Stage& stage = checker.experiment().loss;
  std::optional<std::int64_t> ignored = kIgnoredPixel;
  if (const auto* options = stage.get_if<loss::CrossEntropy>()) ignored = options->ignore_index;
  if (const auto* options = stage.get_if<loss::Nll>()) ignored = options->ignore_index;
  if (stage.get_if<loss::Focal>() != nullptr) ignored.reset();
  if (ignored == kIgnoredPixel || !checker.is_valid("loss")) return;
  checker.error(
      checker.find("loss") != nullptr ? "loss" : "task",
      fmt::format("pixels of masks with the value {} do not count, but the loss does not "
                  "ignore them",
                  kIgnoredPixel),
      fmt::format("write 'loss: {{type: cross_entropy, ignore_index: {}}}'", kIgnoredPixel));
}

/// Reports a loss or metric that does not fit the labels, with those that do.
void check_targets(Checker& checker, const TargetsOf& of) {
  const Experiment& experiment = checker.experiment();
  if (!takes(experiment.loss, of.targets) && checker.is_valid("loss")) {
    checker.error(checker.find("loss") != nullptr ? "loss" : "dataset.train",
                  fmt::format("the loss '{}' takes {}, but {}", experiment.loss.type,
                              taken_of(experiment.loss), of.text()),
                  of.targets == Targets::numbers
                      ? "choose a loss for numbers, such as mse, or data whose labels are classes"
                      : "choose a loss for classes, such as cross_entropy");
  }
  for (std::size_t i = 0; i < experiment.metrics.size(); ++i) {
    const std::string path = fmt::format("metrics.{}", i);
    if (experiment.metrics[i] && checker.is_valid(path))
      check_metric_targets(checker, experiment.metrics[i], path, of);
  }
}

/// Reports the refusals of the stage at the key `owner`. Returns whether there are none.
bool report(Checker& checker, const std::string& owner, const std::vector<Refusal>& found) {
  for (const Refusal& one : found)
    checker.error(one.key.empty() ? owner : owner + "." + one.key, one.message, one.hint);
  return found.empty();
}

/// Returns whether the task fits the samples; reports it otherwise.
bool check_task(Checker& checker, const ModelInput& data) {
  const config::Stage& task = checker.experiment().task;
  if (!takes(task, data.kind.targets)) {
    checker.error("task",
                  fmt::format("the task '{}' takes {}, but the labels of dataset.train are {}",
                              task.type, taken_of(task), enum_name(data.kind.targets)),
                  data.kind.targets == Targets::pixels
                      ? "write 'task: segmentation'"
                      : "choose another task, or remove the key: the data set then decides");
    return false;
  }
  return report(checker, "task", refusals(task, data));
}

/// Checks task, model, loss and metrics against the kind of samples.
void check_kind(Checker& checker, const ModelInput& data) {
  if (!checker.is_valid("task") || !check_task(checker, data)) return;
  const config::Stage& task = checker.experiment().task;
  const ModelInput input = model_input(task, data);
  check_inputs(checker, input.kind.inputs);
  if (task.get_if<task::Gan>() != nullptr) return;  // its targets are no tensors
  TargetsOf of{input.kind.targets};
  if (input.kind.targets != data.kind.targets)
    of.owner = "the targets of the task '" + task.type + "'";
  check_targets(checker, of);
  if (input.kind.targets == Targets::pixels) check_ignored_pixels(checker);
  const std::int64_t classes = input.kind.targets == Targets::numbers ? 0 : input.outputs;
  if (classes > 0) check_classes(checker, classes);
}

void check_image_size(Checker& checker, const ImageSize& image) {
  const config::Stage& model = checker.experiment().model;
  if (model.options_type != typeid(model::Lenet) || !checker.is_valid("model.type")) return;
  if (model::Lenet::takes(image.height, image.width)) return;
  checker.error("model",
                fmt::format("the images are {}x{}, but lenet needs 28x28 or 32x32", image.height,
                            image.width),
                "resize them with a transform to one of these sizes, or choose model mlp");
}

void check_length(Checker& checker, std::optional<std::int64_t> samples, int ranks) {
  const bool knows_epoch =
      checker.is_valid({"loader.batch_size", "loader.drop_last", "trainer.devices",
                        "trainer.num_nodes", "trainer.accelerator", "trainer.limit_train_batches",
                        "trainer.overfit_batches", "trainer.accumulate_grad_batches"});
  const RunLength length =
      schedule_length(checker.experiment(), knows_epoch ? samples : std::nullopt, ranks);
  check_schedulers(checker, length);
  check_averages(checker, length);
}

/// Returns the model's refusals. Layers that could not be read are empty, and the shapes are
/// computed up to the first of them.
std::vector<Refusal> readable_refusals(const Checker& checker, const ModelInput& input) {
  const config::Stage& model = checker.experiment().model;
  if (model.options_type != typeid(model::Sequential))
    return checker.is_valid("model") ? refusals(model, input) : std::vector<Refusal>{};
  model::Sequential options = model.as<model::Sequential>();
  for (std::size_t i = 0; i < options.layers.size(); ++i) {
    if (!checker.is_valid("model.layers." + std::to_string(i))) options.layers[i] = {};
  }
  return options.layers.empty() ? std::vector<Refusal>{} : options.refusals(input);
}

void check_view_size(Checker& checker, const std::vector<std::int64_t>& shape) {
  const auto& views = checker.experiment().trainer.test_time_augmentation;
  if (!views || !checker.is_valid("trainer.test_time_augmentation")) return;
  const config::Stage& task = checker.experiment().task;
  if (task.get_if<task::Reconstruction>() != nullptr ||
      task.get_if<task::Segmentation>() != nullptr)
    return checker.error("trainer.test_time_augmentation",
                         fmt::format("test-time augmentation averages outputs over moved images, "
                                     "but the task '{}' compares them with the image itself",
                                     task.type),
                         "remove 'test_time_augmentation'");
  if (shape.size() == 3 && std::ranges::any_of(shape, [](std::int64_t size) { return size < 1; }))
    return;  // images whose size is not known
  if (shape.size() == 3 && views->translate < std::min(shape[1], shape[2])) return;
  checker.error("trainer.test_time_augmentation",
                fmt::format("test-time augmentation needs images that are larger than 'translate', "
                            "but the samples have the shape {}",
                            fmt::join(shape, "x")),
                "remove 'test_time_augmentation', or reduce 'translate'");
}

void check_file(Checker& checker) {
  const config::Stage& model = checker.experiment().model;
  const auto* script = model.get_if<model::Torchscript>();
  if (script == nullptr || !checker.is_valid("model")) return;
  try {
    (void)script->read();
  } catch (const Error& error) {
    checker.error(script->sha256 ? "model.sha256" : "model.path", error.what());
  }
}

/// Reports a model that is known not to give what the task compares.
void check_fit(Checker& checker, Targets targets) {
  const Experiment& experiment = checker.experiment();
  const bool is_builtin = builtin_vocabulary().find("task", experiment.task.type) != nullptr;
  constexpr std::array<std::string_view, 4> kOfPixels{"unet", "sequential", "torchscript",
                                                      "autoencoder"};
  const std::string& type = experiment.model.type;
  if (targets == Targets::pixels && builtin_vocabulary().find("model", type) != nullptr &&
      std::ranges::find(kOfPixels, type) == kOfPixels.end())
    checker.error("model",
                  fmt::format("the model '{}' gives one answer for each image, but the task needs "
                              "one for each pixel",
                              type),
                  "choose model unet, or sequential with convolutions");
  const bool hides = experiment.task.get_if<task::MaskedLanguageModeling>() != nullptr;
  const bool is_causal = experiment.model.get_if<model::Gpt>() != nullptr ||
                         experiment.model.get_if<model::LstmLm>() != nullptr;
  if (hides && is_causal)
    checker.warning(
        "model", fmt::format("{} sees only the tokens before a hidden one", experiment.model.type),
        "choose model bert, which sees both sides");
  if (is_builtin && !hides && targets == Targets::tokens &&
      experiment.model.get_if<model::Bert>() != nullptr)
    checker.error("model", "bert reads the tokens that it would have to predict",
                  "write 'task: masked_language_modeling', or choose model gpt or lstm_lm");
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
    check_sampler_classes(checker, train->classes);
    if (train->kind) {
      check_kind(checker, {*train->kind, {}, train->classes});
    } else if (train->classes > 0) {
      check_classes(checker, train->classes);
    }
    if (train->image) check_image_size(checker, *train->image);
  }
  check_length(checker, samples, ranks);
}

void check_model(const Loaded& loaded, const std::optional<ModelInput>& input,
                 config::Diagnostics& diagnostics) {
  if (loaded.tree.broken) return;
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  check_file(checker);
  if (input) check_view_size(checker, input->shape);
  const config::Stage& model = loaded.experiment.model;
  const config::Stage& task = loaded.experiment.task;
  if (!input || !model || !checker.is_valid("task")) return;
  if (std::ranges::any_of(input->shape, [](std::int64_t size) { return size < 1; })) return;
  // check_against_data() has reported what does not depend on the shape.
  if (!refusals(task, {input->kind, {}, input->outputs}).empty()) return;
  report(checker, "task", refusals(task, *input));
  const ModelInput changed = model_input(task, *input);
  if (!takes(model, changed.kind.inputs)) return;
  check_fit(checker, changed.kind.targets);
  report(checker, "model", readable_refusals(checker, changed));
}

}  // namespace trainctl::spec
