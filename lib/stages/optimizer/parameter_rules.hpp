#pragma once

#include "spec/options/optimizer.hpp"
#include "stage/stages.hpp"

#include <string>
#include <vector>

namespace trainctl::stages {

/// The tensors that are kept for a parameter, by PyTorch's names: "exp_avg".
using StateNames = std::vector<std::string>;

/// What an optimizer does with one parameter.
struct ParameterSetting {
  double lr_scale = 1;
  double weight_decay = 0;
  StateNames state;
};

/// One for each parameter, as `no_weight_decay_on`, `layer_decay` and `groups` have it. Throws
/// Error(config) for a pattern that matches no parameter.
std::vector<ParameterSetting> parameter_settings(const spec::optimizer::Base& options,
                                                 const std::vector<stage::NamedTensor>& parameters,
                                                 const StateNames& state);

/// Whether a pattern chooses the parameter: as in weights::names, and "bias" for every bias, "norm"
/// for every other parameter of one dimension: the scales of normalization layers.
bool chooses(const std::string& pattern, const stage::NamedTensor& parameter);

/// Throws Error(config) naming `key` where the pattern chooses no parameter.
void check_chooses(const char* key, const std::string& pattern,
                   const std::vector<stage::NamedTensor>& parameters);

/// The layer of a parameter: its name up to the first part that ends with a digit, else its first
/// part. "encoder.layers.encoder_layer_3.ln_1.weight" -> "encoder.layers.encoder_layer_3".
std::string layer_of(const std::string& name);

}  // namespace trainctl::stages
