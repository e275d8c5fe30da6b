#include "stages/optimizer/parameter_rules.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "weights/freeze.hpp"

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

std::vector<std::size_t> chosen(const char* key, const std::string& pattern,
                                const Parameters& parameters) {
  std::vector<std::size_t> matching;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (chooses(pattern, parameters[i])) matching.push_back(i);
  }
  if (!matching.empty()) return matching;
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names;
  for (const stage::NamedTensor& parameter : parameters) names.push_back(parameter.name);
  if (const auto near = nearest(pattern, names)) names = {*near};
  const std::size_t shown = std::min(names.size(), kShown);
  throw Error(ErrorKind::config,
              fmt::format("{}: '{}' matches no trained parameter; there is {}{}", key, pattern,
                          fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "),
                          shown < names.size() ? ", ..." : ""));
}

/// decay^(layers above), layers in the order of the parameters.
void scale_layers(double decay, const Parameters& parameters,
                  std::vector<ParameterSetting>& settings) {
  std::vector<std::string> layers;
  for (const stage::NamedTensor& parameter : parameters) {
    const std::string layer = layer_of(parameter.name);
    if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto place = std::ranges::find(layers, layer_of(parameters[i].name));
    settings[i].lr_scale = std::pow(decay, static_cast<double>(layers.end() - place - 1));
  }
}

}  // namespace

bool chooses(const std::string& pattern, const stage::NamedTensor& parameter) {
  if (pattern == "bias") return is_bias(parameter.name);
  if (pattern == "norm") return parameter.tensor.dim() == 1 && !is_bias(parameter.name);
  return weights::names(pattern, parameter.name);
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
                                                 std::size_t state_kinds) {
  std::vector<ParameterSetting> settings(parameters.size(), {1, options.weight_decay, state_kinds});
  if (options.layer_decay < 1) scale_layers(options.layer_decay, parameters, settings);
  for (const std::string& pattern : options.no_weight_decay_on) {
    for (const std::size_t i : chosen("no_weight_decay_on", pattern, parameters))
      settings[i].weight_decay = 0;
  }
  for (const spec::optimizer::ParameterRule& rule : options.groups) {
    std::vector<bool> member(parameters.size(), false);
    for (const std::string& pattern : rule.match) {
      for (const std::size_t i : chosen("groups", pattern, parameters)) member[i] = true;
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
