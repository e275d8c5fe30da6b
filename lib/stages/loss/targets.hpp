#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::stages {

/// The targets shaped like the logits [N, K]: classes int64 [N] become one-hot rows, numbers are
/// given back as they are.
at::Tensor as_numbers(const at::Tensor& logits, const at::Tensor& targets);

/// Logits [N, K] and classes [N] of sequences [N, T, K] and [N, T]: a row for each token.
struct ClassRows {
  at::Tensor logits;
  at::Tensor classes;
};
ClassRows class_rows(const at::Tensor& logits, const at::Tensor& targets);

/// One value for each of `count` classes or outputs as a float32 tensor on `device`; nothing where
/// the list is empty. Throws Error(config) naming `key` where it has another length, or only zeros.
std::optional<at::Tensor> weights_of(const std::vector<double>& values, const char* key,
                                     std::int64_t count, at::Device device);

/// What the classes count in a weighted mean: the sum of their weights, but of those that are
/// `ignored`; 0-d float32.
at::Tensor weight_of(const at::Tensor& classes, const std::optional<at::Tensor>& weights,
                     std::optional<std::int64_t> ignored);

}  // namespace trainctl::stages
