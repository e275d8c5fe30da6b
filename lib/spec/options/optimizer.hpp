#pragma once

#include "config/schema/describe.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec::optimizer {

/// Different settings for parameters selected by name.
struct ParameterRule {
  static constexpr auto kSummary =
      "Learning rate, weight decay or another optimizer for parameters selected by name.";

  std::vector<std::string> match;
  double lr_scale = 1;
  std::optional<double> weight_decay;
  config::Stage optimizer = {};
  config::Stage scheduler = {};

  static void describe(auto& options) {
    options.field("match", &ParameterRule::match,
                  {.required = true, .not_empty = true, .example = "[\"layer1.*\"]"},
                  "Names of parameters or layers, with *, ? and [...]; or 'bias' for every bias, "
                  "'norm' for every other parameter of one dimension.");
    options.field("lr_scale", &ParameterRule::lr_scale, {.at_least = 0},
                  "Factor on the learning rate of these parameters.");
    options.field("weight_decay", &ParameterRule::weight_decay, {.at_least = 0},
                  "Weight decay of these parameters.");
    options.stage(
        "optimizer", &ParameterRule::optimizer, "optimizer",
        {.example = "{type: sgd, lr: 0.1, momentum: 0.9}"},
        "Another optimizer for these parameters, with its own lr and weight_decay; absent: "
        "the same.");
    options.stage(
        "scheduler", &ParameterRule::scheduler, "scheduler",
        {.example = "{type: linear_lr, start_factor: 1, end_factor: 0, total_iters: 3}"},
        "Scheduler of that optimizer; absent: its rate changes by the same factor as lr.");
  }
};

/// Options of every optimizer: learning rate, weight decay, and exceptions by parameter.
struct Base {
  double lr = 1e-3;
  double weight_decay = 0;
  std::vector<std::string> no_weight_decay_on;
  double layer_decay = 1;
  std::vector<ParameterRule> groups;

  static void describe(auto& options) {
    options.field("lr", &Base::lr, {.above = 0, .example = "0.1"}, "Learning rate.");
    options.field(
        "weight_decay", &Base::weight_decay, {.at_least = 0},
        "Weight decay: an L2 penalty or decoupled weight decay, depending on the optimizer.");
    options.field("no_weight_decay_on", &Base::no_weight_decay_on, {.example = "[bias, norm]"},
                  "Parameters without weight decay: 'bias', 'norm' (every other parameter of one "
                  "dimension), or names of parameters or layers, with *, ? and [...].");
    options.field(
        "layer_decay", &Base::layer_decay, {.above = 0, .at_most = 1, .example = "0.75"},
        "Layer-wise learning rate decay (Clark et al. 2020): the rate of a layer is this factor "
        "times the rate of the next layer. Parameters whose names are equal up to the first part "
        "that ends with a digit, as 'blocks.3', form one layer; all before them form one more.");
    options.field(
        "groups", &Base::groups, {.example = "[{match: [\"fc.*\"], lr_scale: 10}]"},
        "Learning rates, weight decay and optimizers by parameter name; if several match, "
        "the factors multiply, and the last weight decay and optimizer apply.");
  }
};

struct Sgd : Base {
  static constexpr auto kSummary =
      "Stochastic gradient descent with momentum, as torch.optim.SGD; weight decay is L2; fused "
      "kernel.";

  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;

  static void describe(auto& options) {
    Base::describe(options);
    options.field("momentum", &Sgd::momentum, {.at_least = 0, .below = 1}, "Momentum factor.");
    options.field("dampening", &Sgd::dampening, {.at_least = 0, .at_most = 1},
                  "Dampening of the momentum.");
    options.field("nesterov", &Sgd::nesterov,
                  "Nesterov momentum; needs momentum above 0 and dampening 0.");
  }
};

/// Options of Adam and its variants: running averages of the gradient and of its square.
struct Moments : Base {
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;

  static void describe(auto& options) {
    Base::describe(options);
    options.field("betas", &Moments::betas, {.at_least = 0, .below = 1},
                  "Decay rates of the two running averages.");
    options.field("eps", &Moments::eps, {.at_least = 0}, "Added to the denominator.");
  }
};

/// Options of adam and adamw, which differ only in the default weight decay.
struct AdamBase : Moments {
  bool amsgrad = false;

  static void describe(auto& options) {
    Moments::describe(options);
    options.field("amsgrad", &AdamBase::amsgrad,
                  "Uses the maximum of past second moments (Reddi et al. 2018).");
  }
};

struct Adam : AdamBase {
  static constexpr auto kSummary =
      "Adam (Kingma & Ba 2014), as torch.optim.Adam; weight decay is L2; fused kernel.";
};

struct Adamw : AdamBase {
  static constexpr auto kSummary =
      "AdamW (Loshchilov & Hutter 2017): Adam with decoupled weight decay; fused kernel.";

  Adamw() { weight_decay = 1e-2; }
};

struct Nadam : Moments {
  static constexpr auto kSummary =
      "Adam with Nesterov momentum (Dozat 2016), as torch.optim.NAdam; weight decay is L2 unless "
      "decoupled; foreach kernels.";

  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;

  Nadam() { lr = 2e-3; }
  static void describe(auto& options) {
    Moments::describe(options);
    options.field("momentum_decay", &Nadam::momentum_decay, {.at_least = 0},
                  "Decay of the momentum schedule.");
    options.field("decoupled_weight_decay", &Nadam::decoupled_weight_decay,
                  "Uses decoupled weight decay, as in AdamW, instead of an L2 penalty.");
  }
};

struct Radam : Moments {
  static constexpr auto kSummary =
      "Adam with a rectified variance (Liu et al. 2019), as torch.optim.RAdam; weight decay is L2 "
      "unless decoupled; foreach kernels.";

  bool decoupled_weight_decay = false;

  static void describe(auto& options) {
    Moments::describe(options);
    options.field("decoupled_weight_decay", &Radam::decoupled_weight_decay,
                  "Uses decoupled weight decay, as in AdamW, instead of an L2 penalty.");
  }
};

struct Lamb : Moments {
  static constexpr auto kSummary =
      "LAMB (You et al. 2019): Adam with steps scaled to the norm of each parameter, for large "
      "batches; foreach kernels.";

  bool always_adapt = false;

  Lamb() { eps = 1e-6; }
  static void describe(auto& options) {
    Moments::describe(options);
    options.field("always_adapt", &Lamb::always_adapt,
                  "Also scales the steps of parameters without weight decay; false: these "
                  "parameters take Adam's steps, as in timm and TensorFlow.");
  }
};

struct Adagrad : Base {
  static constexpr auto kSummary =
      "Adagrad (Duchi et al. 2011), as torch.optim.Adagrad; weight decay is L2; fused kernel.";

  double lr_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;

  Adagrad() { lr = 1e-2; }
  static void describe(auto& options) {
    Base::describe(options);
    options.field("lr_decay", &Adagrad::lr_decay, {.at_least = 0},
                  "Decay of the learning rate, which is divided by 1 + step * lr_decay.");
    options.field("initial_accumulator_value", &Adagrad::initial_accumulator_value, {.at_least = 0},
                  "Initial value of the sums of squares.");
    options.field("eps", &Adagrad::eps, {.at_least = 0}, "Added to the denominator.");
  }
};

struct Rmsprop : Base {
  static constexpr auto kSummary =
      "RMSprop (Hinton 2012), as torch.optim.RMSprop; weight decay is L2; foreach kernels.";

  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0;
  bool centered = false;

  Rmsprop() { lr = 1e-2; }
  static void describe(auto& options) {
    Base::describe(options);
    options.field("alpha", &Rmsprop::alpha, {.at_least = 0, .below = 1},
                  "Decay rate of the average of squares.");
    options.field("eps", &Rmsprop::eps, {.at_least = 0}, "Added to the denominator.");
    options.field("momentum", &Rmsprop::momentum, {.at_least = 0, .below = 1}, "Momentum factor.");
    options.field(
        "centered", &Rmsprop::centered,
        "Normalizes by the estimated standard deviation of the gradient (centered RMSprop).");
  }
};

struct Lion : Base {
  static constexpr auto kSummary =
      "Lion (Chen et al. 2023): steps by the sign of the averaged gradient; decoupled weight "
      "decay; foreach kernels.";

  std::array<double, 2> betas{0.9, 0.99};

  Lion() { lr = 1e-4; }
  static void describe(auto& options) {
    Base::describe(options);
    options.field("betas", &Lion::betas, {.at_least = 0, .below = 1},
                  "Weight of the momentum in a step, and decay rate of the momentum.");
  }
};

enum class AdjustLrFn { original, match_rms_adamw };
constexpr std::array<const char*, 2> enum_names(AdjustLrFn) {
  return {"original", "match_rms_adamw"};
}

enum class NewtonSchulzDtype { bfloat16, float32 };
constexpr std::array<const char*, 2> enum_names(NewtonSchulzDtype) {
  return {"bfloat16", "float32"};
}

struct Muon : Base {
  static constexpr auto kSummary =
      "Muon (Jordan et al. 2024), as torch.optim.Muon: orthogonalized momentum for matrices, AdamW "
      "for every other parameter; decoupled weight decay.";

  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients{3.4445, -4.775, 2.0315};
  double eps = 1e-7;
  std::int64_t ns_steps = 5;
  AdjustLrFn adjust_lr_fn = AdjustLrFn::original;
  NewtonSchulzDtype ns_dtype = NewtonSchulzDtype::bfloat16;
  bool flatten_filters = false;
  bool normalize_weights = false;
  std::vector<std::string> adamw_on{"*embed*", "*wte.*", "*wpe.*", "*head*"};
  std::optional<double> adamw_lr;
  std::array<double, 2> adamw_betas{0.9, 0.999};
  double adamw_eps = 1e-8;

  Muon() { weight_decay = 0.1; }
  static void describe(auto& options) {
    Base::describe(options);
    options.field("momentum", &Muon::momentum, {.at_least = 0, .below = 1}, "Momentum factor.");
    options.field("nesterov", &Muon::nesterov, "Nesterov momentum.");
    options.field("ns_coefficients", &Muon::ns_coefficients,
                  "Coefficients of the Newton-Schulz polynomial a x + b x^3 + c x^5.");
    options.field("eps", &Muon::eps, {.above = 0},
                  "Lower bound of the norm by which a matrix is divided before the iterations.");
    options.field("ns_steps", &Muon::ns_steps, {.at_least = 1, .at_most = 99},
                  "Number of Newton-Schulz iterations.");
    options.field("adjust_lr_fn", &Muon::adjust_lr_fn,
                  "Factor of a matrix's learning rate. original: sqrt(max(1, rows / columns)); "
                  "match_rms_adamw: 0.2 sqrt(max(rows, columns)), which suits AdamW's learning "
                  "rates (Liu et al. 2025).");
    options.field("ns_dtype", &Muon::ns_dtype,
                  "Number format of the Newton-Schulz iterations; PyTorch's is bfloat16.");
    options.field("flatten_filters", &Muon::flatten_filters,
                  "Also orthogonalizes the updates of convolution filters, as matrices with one "
                  "row per output channel.");
    options.field("normalize_weights", &Muon::normalize_weights,
                  "Scales each matrix to a Frobenius norm of sqrt(rows) before each step, which "
                  "keeps the size of a step relative to the weights constant.");
    options.field("adamw_on", &Muon::adamw_on,
                  "Matrices to update with AdamW instead of Muon, by parameter or layer name, with "
                  "*, ? and [...]; list the embeddings and the output layer.");
    options.field("adamw_lr", &Muon::adamw_lr, {.above = 0, .example = "3e-4"},
                  "AdamW's learning rate; null: the value of lr.");
    options.field("adamw_betas", &Muon::adamw_betas, {.at_least = 0, .below = 1},
                  "AdamW's decay rates.");
    options.field("adamw_eps", &Muon::adamw_eps, {.at_least = 0}, "Added to AdamW's denominator.");
  }
};

}  // namespace trainctl::spec::optimizer
