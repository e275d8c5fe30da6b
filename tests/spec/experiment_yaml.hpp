#pragma once

#include "base/error.hpp"
#include "spec/load.hpp"

#include <string>
#include <vector>

/// A valid experiment that tests change by overrides.
inline constexpr const char* kValidYaml = R"(name: valid
dataset:
  train: {type: synthetic_digits, split: train, transforms: [{type: normalize, mean: [0.1307], std: [0.3081]}]}
  val: {type: synthetic_digits, split: test, transforms: [{type: normalize, mean: [0.1307], std: [0.3081]}]}
model: mlp
optimizer: adam
metrics: [accuracy]
trainer: {accelerator: cpu, max_epochs: 5}
)";

inline trainctl::spec::Loaded load_valid(const std::vector<std::string>& overrides) {
  trainctl::config::Diagnostics diagnostics;
  return trainctl::spec::load_experiment_text("valid.yaml", kValidYaml, overrides, diagnostics);
}

/// Returns every problem of kValidYaml with the overrides as text; empty if there are no problems.
inline std::string problems_of(const std::vector<std::string>& overrides) {
  trainctl::config::Diagnostics diagnostics;
  try {
    trainctl::spec::load_experiment_text("valid.yaml", kValidYaml, overrides, diagnostics);
  } catch (const trainctl::Error& error) {
    if (error.kind() != trainctl::ErrorKind::config) throw;
  }
  return diagnostics.render();
}
