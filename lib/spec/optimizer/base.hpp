#pragma once

#include "config/schema/describe.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec::optimizer {

/// What differs for some parameters, chosen by name.
struct ParameterRule {
  static constexpr auto kSummary = "Another rate or weight decay for parameters chosen by name.";

  std::vector<std::string> match;
  double lr_scale = 1;
  std::optional<double> weight_decay;

  static void describe(config::Describe<ParameterRule>& options) {
    options
        .field("match", &ParameterRule::match,
               "Names of parameters or layers, with *, ? and [...]; or 'bias' for every bias, "
               "'norm' for every other parameter of one dimension.")
        .required()
        .not_empty()
        .example("[\"layer1.*\"]");
    options.field("lr_scale", &ParameterRule::lr_scale, "Their rate over that of the others.")
        .at_least(0);
    options.field("weight_decay", &ParameterRule::weight_decay, "Their weight decay.").at_least(0);
  }
};

/// What every optimizer has: a rate, weight decay, and the parameters for which they differ.
struct Base {
  double lr = 1e-3;
  double weight_decay = 0;
  std::vector<std::string> no_weight_decay_on;
  double layer_decay = 1;
  std::vector<ParameterRule> groups;

  static void describe(config::Describe<Base>& options) {
    options.field("lr", &Base::lr, "Learning rate.").above(0).example("0.1");
    options
        .field("weight_decay", &Base::weight_decay,
               "Weight decay: an L2 penalty added to the gradient, or decoupled from it; see the "
               "optimizer.")
        .at_least(0);
    options
        .field("no_weight_decay_on", &Base::no_weight_decay_on,
               "Parameters without weight decay: 'bias', 'norm' (every other parameter of one "
               "dimension), or names of parameters or layers, with *, ? and [...].")
        .example("[bias, norm]");
    options
        .field("layer_decay", &Base::layer_decay,
               "Layer-wise rates (Clark et al. 2020): each layer's rate is that of the layer above "
               "times this. A layer is what shares a name up to its first number; all before the "
               "first such layer is one.")
        .above(0)
        .at_most(1)
        .example("0.75");
    options
        .field("groups", &Base::groups,
               "Other rates and weight decay by name; where several match, the rates multiply and "
               "the last weight decay counts.")
        .example("[{match: [\"fc.*\"], lr_scale: 10}]");
  }
};

}  // namespace trainctl::spec::optimizer
