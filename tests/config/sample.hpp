#pragma once

#include "config/schema/describe.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

// The tests of the config use this small experiment, which has a field of every type.

namespace sample {

using trainctl::config::Auto;
using trainctl::config::Describe;
using trainctl::config::Stage;
using trainctl::config::Vocabulary;

struct Adam {
  static constexpr auto kSummary = "Adam (Kingma & Ba 2014).";
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;

  static void describe(Describe<Adam>& options) {
    options.field("lr", &Adam::lr, {.above = 0}, "Learning rate.");
    options.field("betas", &Adam::betas, {.at_least = 0, .below = 1},
                  "Decay of the running averages.");
    options.field("eps", &Adam::eps, {.above = 0}, "Added to the denominator.");
    options.field("weight_decay", &Adam::weight_decay, {.at_least = 0}, "L2 penalty.");
    options.field("amsgrad", &Adam::amsgrad, "The AMSGrad variant.");
  }
};

struct Sgd {
  static constexpr auto kSummary = "Stochastic gradient descent.";
  double lr = 1e-3;
  double momentum = 0;

  static void describe(Describe<Sgd>& options) {
    options.field("lr", &Sgd::lr, {.above = 0}, "Learning rate.");
    options.field("momentum", &Sgd::momentum, {.at_least = 0, .below = 1}, "Momentum.");
  }
};

struct StepLr {
  static constexpr auto kSummary = "Decays by gamma every step_size epochs.";
  std::int64_t step_size = 0;
  double gamma = 0.1;

  static void describe(Describe<StepLr>& options) {
    options.field("step_size", &StepLr::step_size,
                  {.required = true, .at_least = 1, .example = "2"}, "Epochs between two decays.");
    options.field("gamma", &StepLr::gamma, {.above = 0}, "Factor of each decay.");
  }
};

struct ConstantLr {
  static constexpr auto kSummary = "No decay.";
  static void describe(Describe<ConstantLr>&) {}
};

enum class Activation { relu, gelu, tanh };
constexpr std::array<const char*, 3> enum_names(Activation) { return {"relu", "gelu", "tanh"}; }

struct Mlp {
  static constexpr auto kSummary = "Fully connected layers.";
  std::vector<std::int64_t> hidden{128, 64};
  Activation activation = Activation::relu;
  double dropout = 0;

  static void describe(Describe<Mlp>& options) {
    options.field("hidden", &Mlp::hidden, {.at_least = 1, .at_most = 1 << 20},
                  "Width of each hidden layer.");
    options.field("activation", &Mlp::activation, "Activation after each layer.");
    options.field("dropout", &Mlp::dropout, {.at_least = 0, .below = 1},
                  "Probability of dropping a unit.");
  }
};

struct Mnist {
  static constexpr auto kSummary = "Handwritten digits.";
  std::filesystem::path root;
  bool train = true;

  static void describe(Describe<Mnist>& options) {
    options.field("root", &Mnist::root, {.required = true, .example = "data/mnist"},
                  "Folder with the files.");
    options.field("train", &Mnist::train, "The training half.");
  }
};

struct Digits {
  static constexpr auto kSummary = "Rendered digits.";
  std::optional<std::int64_t> samples;

  static void describe(Describe<Digits>& options) {
    options.field("samples", &Digits::samples, {.at_least = 1}, "Number of samples.");
  }
};

struct Normalize {
  static constexpr auto kSummary = "Subtracts mean, divides by std.";
  std::vector<double> mean;
  std::vector<double> std;

  static void describe(Describe<Normalize>& options) {
    options.field("mean", &Normalize::mean,
                  {.required = true, .not_empty = true, .example = "[0.1307]"},
                  "Mean of each channel.");
    options.field("std", &Normalize::std, {.required = true, .above = 0, .example = "[0.3081]"},
                  "Deviation of each channel.");
  }
};

struct Crop {
  static constexpr auto kSummary = "A random crop.";
  std::int64_t padding = 4;
  static void describe(Describe<Crop>& options) {
    options.field("padding", &Crop::padding, {.at_least = 0}, "Pixels.");
  }
};

struct Accuracy {
  static constexpr auto kSummary = "Fraction of right answers.";
  static void describe(Describe<Accuracy>&) {}
};

struct TopK {
  static constexpr auto kSummary = "Fraction of right answers among k.";
  int k = 5;
  static void describe(Describe<TopK>& options) {
    options.field("k", &TopK::k, {.at_least = 1}, "How many count.");
  }
};

struct Split {
  static constexpr auto kSummary = "One split of the data.";
  Stage dataset;
  std::vector<Stage> transforms;

  static void describe(Describe<Split>& options) {
    options.inline_stage(&Split::dataset, "dataset");
    options.stages("transforms", &Split::transforms, "transform",
                   "Applied to each sample, in order.");
  }
};

struct Data {
  static constexpr auto kSummary = "The data.";
  Split train;
  std::optional<Split> val;

  static void describe(Describe<Data>& options) {
    options.field("train", &Data::train, {.required = true, .example = "{type: digits}"},
                  "The loss to minimize.");
    options.field("val", &Data::val, "What is measured.");
  }
};

struct Loader {
  static constexpr auto kSummary = "How batches are made.";
  std::int64_t batch_size = 64;
  Auto<int> num_workers;
  Auto<bool> pin_memory;

  static void describe(Describe<Loader>& options) {
    options.field("batch_size", &Loader::batch_size, {.at_least = 1, .at_most = 1 << 24},
                  "Samples a step.");
    options.field("num_workers", &Loader::num_workers, {.at_least = 0, .at_most = 256},
                  "Loader threads.");
    options.field("pin_memory", &Loader::pin_memory, "Page-locked batches.");
  }
};

enum class Precision { full, mixed16, mixed_bf16 };
constexpr std::array<const char*, 3> enum_names(Precision) {
  return {"32-true", "16-mixed", "bf16-mixed"};
}

struct Trainer {
  static constexpr auto kSummary = "The training loop.";
  std::int64_t max_epochs = 10;
  Precision precision = Precision::full;
  std::optional<double> gradient_clip_val;
  bool deterministic = false;
  std::uint8_t verbosity = 1;
  double divergence_limit = 1e6;

  static void describe(Describe<Trainer>& options) {
    options.field("max_epochs", &Trainer::max_epochs, {.at_least = 1}, "Epochs to train.");
    options.field("precision", &Trainer::precision, "Arithmetic.");
    options.field("gradient_clip_val", &Trainer::gradient_clip_val, {.above = 0},
                  "Largest gradient norm.");
    options.field("deterministic", &Trainer::deterministic, "Only deterministic kernels.");
    options.field("verbosity", &Trainer::verbosity, "How much is said.");
    options.field("divergence_limit", &Trainer::divergence_limit, {.allows_non_finite = true},
                  "Loss that ends the run.");
  }
};

struct Phase {
  static constexpr auto kSummary = "A part of the run.";
  std::int64_t epochs = 1;
  double lr_scale = 1;

  static void describe(Describe<Phase>& options) {
    options.field("epochs", &Phase::epochs, {.at_least = 1}, "Length.");
    options.field("lr_scale", &Phase::lr_scale, {.above = 0}, "Factor of the learning rate.");
  }
};

enum class Logger { console, csv };
constexpr std::array<const char*, 2> enum_names(Logger) { return {"console", "csv"}; }

struct Experiment {
  static constexpr auto kSummary = "An experiment of the tests.";
  std::string name = "experiment";
  std::uint64_t seed = 0;
  std::optional<Data> dataset;
  Loader loader;
  Stage model;
  Stage optimizer;
  Stage scheduler = trainctl::config::make_stage("scheduler", "constant_lr", ConstantLr{});
  std::vector<Stage> metrics;
  Trainer trainer;
  std::vector<Phase> phases;
  std::map<std::string, double> class_weights;
  std::vector<Logger> loggers{Logger::console, Logger::csv};
  std::optional<std::string> token;

  static void describe(Describe<Experiment>& options) {
    options.field("name", &Experiment::name, {.not_empty = true}, "Name of the run.");
    options.field("seed", &Experiment::seed, "Seed of all draws.");
    options.field("dataset", &Experiment::dataset, "The data.");
    options.field("loader", &Experiment::loader, "How batches are made.");
    options.stage("model", &Experiment::model, "model", "The network.");
    options.stage("optimizer", &Experiment::optimizer, "optimizer", {.required = true},
                  "How weights are updated.");
    options.stage("scheduler", &Experiment::scheduler, "scheduler", "The learning rate schedule.");
    options.stages("metrics", &Experiment::metrics, "metric", "What is measured.");
    options.field("trainer", &Experiment::trainer, "The training loop.");
    options.field("phases", &Experiment::phases, "Parts of the run.");
    options.field("class_weights", &Experiment::class_weights, {.at_least = 0},
                  "Weight of each class.");
    options.field("loggers", &Experiment::loggers, "Where metrics go.");
    options.field("token", &Experiment::token, "Of the tracking server.");
  }
};

inline const Vocabulary& vocabulary() {
  static const Vocabulary all = [] {
    Vocabulary stages;
    stages.add<Adam>("optimizer", "adam");
    stages.add<Sgd>("optimizer", "sgd");
    stages.add<StepLr>("scheduler", "step_lr");
    stages.add<ConstantLr>("scheduler", "constant_lr");
    stages.add<Mlp>("model", "mlp");
    stages.add<Mnist>("dataset", "mnist");
    stages.add<Digits>("dataset", "digits");
    stages.add<Normalize>("transform", "normalize");
    stages.add<Crop>("transform", "random_crop");
    stages.add<Accuracy>("metric", "accuracy");
    stages.add<TopK>("metric", "top_k_accuracy");
    return stages;
  }();
  return all;
}

inline const trainctl::config::Schema& schema() {
  static const trainctl::config::Schema schema = trainctl::config::schema_of<Experiment>();
  return schema;
}

/// Reads a tree and adds problems to `diagnostics`.
inline Experiment read(const trainctl::config::Node& tree,
                       trainctl::config::Diagnostics& diagnostics) {
  Experiment experiment;
  trainctl::config::Reader(vocabulary(), diagnostics)
      .object(tree, schema(), "the experiment", &experiment);
  return experiment;
}

}  // namespace sample
