#pragma once

#include "spec/options/optimizer.hpp"
#include "stage/stages.hpp"

#include <string>
#include <vector>

namespace trainctl::stages {

/// The PyTorch names of the state tensors of a parameter: "exp_avg".
using StateNames = std::vector<std::string>;

/// How an optimizer treats one parameter.
struct ParameterSetting {
  double lr_scale = 1;
  double weight_decay = 0;
  StateNames state;
};

/// Returns the setting of each parameter according to `no_weight_decay_on`, `layer_decay` and those
/// `groups` that name no other optimizer. Throws Error(config) for a pattern that matches no
/// parameter.
std::vector<ParameterSetting> parameter_settings(const spec::optimizer::Base& options,
                                                 const std::vector<stage::NamedTensor>& parameters,
                                                 const StateNames& state);

/// Returns whether a pattern matches the parameter: as in weights::names, and "bias" matches every
/// bias, "norm" every other 1-d parameter, which are the scales of normalization layers.
bool chooses(const std::string& pattern, const stage::NamedTensor& parameter);

/// Returns the indices of the parameters that the pattern matches. Throws Error(config) naming
/// `key` if there are none, unless the pattern is "bias" or "norm".
std::vector<std::size_t> match_parameters(const char* key, const std::string& pattern,
                                          const std::vector<stage::NamedTensor>& parameters);

/// Returns the layer of a parameter: its name up to the first part that ends with a digit, or else
/// the first part. "encoder.layers.encoder_layer_3.ln_1.weight" ->
/// "encoder.layers.encoder_layer_3".
std::string layer_of(const std::string& name);

}  // namespace trainctl::stages
