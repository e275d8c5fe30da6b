#include "stages/optimizer/parameter_rules.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "weights/tensor_names.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace trainctl::stages {
namespace {

using Parameters = std::vector<stage::NamedTensor>;

bool is_bias(const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  return last == "bias" || last.ends_with("_bias");
}

bool is_numbered(const std::string& layer) {
  return std::isdigit(static_cast<unsigned char>(layer.back())) != 0;
}

/// Returns the layer of each parameter, counted from 0 in their order. Everything before the first
/// numbered layer counts as one layer, the embedding. A later layer is separate even if its name
/// begins like the embedding's, such as "encoder.ln" of a vision transformer.
std::vector<std::size_t> layers_of(const Parameters& parameters) {
  std::vector<std::string> names;
  for (const stage::NamedTensor& parameter : parameters) names.push_back(layer_of(parameter.name));
  const auto numbered = std::ranges::find_if(names, is_numbered);
  if (numbered != names.end()) std::fill(names.begin(), numbered, std::string());
  std::vector<std::size_t> layers(names.size(), 0);
  for (std::size_t i = 1; i < names.size(); ++i)
    layers[i] = layers[i - 1] + (names[i] == names[i - 1] ? 0 : 1);
  return layers;
}

/// Scales rates by decay^(number of layers above).
void scale_layers(double decay, const Parameters& parameters,
                  std::vector<ParameterSetting>& settings) {
  const std::vector<std::size_t> layers = layers_of(parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    settings[i].lr_scale = std::pow(decay, static_cast<double>(layers.back() - layers[i]));
}

}  // namespace

bool chooses(const std::string& pattern, const stage::NamedTensor& parameter) {
  if (pattern == "bias") return is_bias(parameter.name);
  if (pattern == "norm") return parameter.tensor.dim() == 1 && !is_bias(parameter.name);
  return weights::names(pattern, parameter.name);
}

std::vector<std::size_t> match_parameters(const char* key, const std::string& pattern,
                                          const Parameters& parameters) {
  std::vector<std::size_t> matching;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (chooses(pattern, parameters[i])) matching.push_back(i);
  }
  const bool is_word = pattern == "bias" || pattern == "norm";  // a network may have none
  if (!matching.empty() || is_word) return matching;
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names;
  for (const stage::NamedTensor& parameter : parameters) names.push_back(parameter.name);
  if (const auto near = nearest(pattern, names)) names = {*near};
  const std::size_t shown = std::min(names.size(), kShown);
  throw Error(
      ErrorKind::config,
      fmt::format("{}: '{}' matches no trained parameter\nhint: choose, for example, {}{}", key,
                  pattern, fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "),
                  shown < names.size() ? ", ..." : ""));
}

std::string layer_of(const std::string& name) {
  std::size_t end = 0;
  while (end != std::string::npos) {
    end = name.find('.', end + 1);
    const std::string path = name.substr(0, end);
    if (end != std::string::npos && std::isdigit(static_cast<unsigned char>(path.back())) != 0)
      return path;
  }
  return name.substr(0, name.find('.'));
}

std::vector<ParameterSetting> parameter_settings(const spec::optimizer::Base& options,
                                                 const Parameters& parameters,
                                                 const StateNames& state) {
  std::vector<ParameterSetting> settings(parameters.size(), {1, options.weight_decay, state});
  if (options.layer_decay < 1) scale_layers(options.layer_decay, parameters, settings);
  for (const std::string& pattern : options.no_weight_decay_on) {
    for (const std::size_t i : match_parameters("no_weight_decay_on", pattern, parameters))
      settings[i].weight_decay = 0;
  }
  for (const spec::optimizer::ParameterRule& rule : options.groups) {
    if (rule.optimizer) continue;  // its parameters are not among these
    std::vector<bool> member(parameters.size(), false);
    for (const std::string& pattern : rule.match) {
      for (const std::size_t i : match_parameters("groups", pattern, parameters)) member[i] = true;
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!member[i]) continue;
      settings[i].lr_scale *= rule.lr_scale;
      settings[i].weight_decay = rule.weight_decay.value_or(settings[i].weight_decay);
    }
  }
  return settings;
}

}  // namespace trainctl::stages
