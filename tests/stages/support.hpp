#pragma once

#include "base/json.hpp"
#include "config/schema/schema.hpp"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

// What the tests of the stages share: stages from a few words of YAML, numbers of PyTorch,
// comparisons.

namespace stages_test {

/// The stage as an experiment would hold it; a bad option fails the test. `options` is a YAML map
/// such as "{lr: 0.1}".
trainctl::config::Stage stage(const std::string& kind, const std::string& type,
                              const std::string& options = "{}");

/// tests/golden/torch/NAME.json, written by tests/golden/make.
trainctl::Json golden(const std::string& name);

/// Nested lists of numbers as a tensor of the same shape.
at::Tensor tensor(const trainctl::Json& numbers, at::ScalarType dtype = at::kFloat);

/// A list of numbers that is a shape.
std::vector<std::int64_t> shape_of(const trainctl::Json& numbers);

/// The input of the golden models: sin(0), sin(1), ... in two rows.
at::Tensor ramp(std::vector<std::int64_t> shape);

}  // namespace stages_test
