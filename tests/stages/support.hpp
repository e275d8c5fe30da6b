#pragma once

#include "base/json.hpp"
#include "config/schema/schema.hpp"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

// Helpers for tests of stages: stages from short YAML, reference values from PyTorch, comparisons.

namespace stages_test {

/// Returns a stage as an experiment would contain it; an invalid option fails the test. `options`
/// is a YAML map such as "{lr: 0.1}".
trainctl::config::Stage stage(const std::string& kind, const std::string& type,
                              const std::string& options = "{}");

/// Returns tests/golden/torch/NAME.json, which tests/golden/make writes.
trainctl::Json golden(const std::string& name);

/// Converts nested lists of numbers to a tensor of the same shape.
at::Tensor tensor(const trainctl::Json& numbers, at::ScalarType dtype = at::kFloat);

/// Converts a list of numbers to a shape.
std::vector<std::int64_t> shape_of(const trainctl::Json& numbers);

/// Returns the input of the golden models: sin(0), sin(1), ... in two rows.
at::Tensor ramp(std::vector<std::int64_t> shape);

}  // namespace stages_test
