#pragma once

#include "base/json.hpp"
#include "config/schema/schema.hpp"
#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

// Helpers for tests of stages: stages from short YAML, reference values from PyTorch, comparisons.

namespace stages_test {

/// Returns a stage as an experiment would contain it; an invalid option fails the test. `options`
/// is a YAML map such as "{lr: 0.1}".
trainctl::config::Stage stage(const std::string& kind, const std::string& type,
                              const std::string& options = "{}");

/// Builds a built-in model from the same short form.
std::unique_ptr<trainctl::stage::Model> make_model(const std::string& type,
                                                   const std::string& options,
                                                   const trainctl::stage::ModelContext& context);

/// Returns tests/golden/torch/NAME.json, which tests/golden/make writes.
trainctl::Json golden(const std::string& name);

/// Converts nested lists of numbers to a tensor of the same shape.
at::Tensor tensor(const trainctl::Json& numbers, at::ScalarType dtype = at::kFloat);

/// Converts a list of numbers to a shape.
std::vector<std::int64_t> shape_of(const trainctl::Json& numbers);

/// Returns the input of the golden models: sin(0), sin(1), ... in two rows.
at::Tensor ramp(std::vector<std::int64_t> shape);

/// Checks names and shapes and, where `expected` contains them, the first values of the tensors.
void check_names(const std::vector<trainctl::stage::NamedTensor>& found,
                 const trainctl::Json& expected);

/// Checks the gradients of the parameters: the first values of each, and its norm.
void check_gradients(const trainctl::stage::Model& model, const trainctl::Json& expected);

/// Adds sin(i + j) / 20 to element i of parameter j, as the scripts of tests/golden/make do,
/// because weights of zero would hide the layers before them.
void perturb(const trainctl::stage::Model& model);

}  // namespace stages_test
