#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::stages {

/// Returns the targets in the shape of the logits [N, K]: int64 classes [N] become one-hot rows,
/// numeric targets are returned unchanged.
at::Tensor as_numbers(const at::Tensor& logits, const at::Tensor& targets);

/// Returns logits of 16 bits as float32, and others unchanged.
at::Tensor widen(const at::Tensor& logits);

/// Logits [N, K] and classes [N] with a row for each token of [N, T, K] and [N, T], or for each
/// pixel of [N, K, H, W] and [N, H, W].
struct ClassRows {
  at::Tensor logits;
  at::Tensor classes;
};
/// Flattens sequences and images; returns other logits and classes unchanged.
ClassRows class_rows(const at::Tensor& logits, const at::Tensor& targets);

/// Returns one value for each of `count` classes or outputs as a float32 tensor on `device`;
/// nullopt if the list is empty. Throws Error(config) naming `key` if the length differs or all
/// values are 0.
std::optional<at::Tensor> weights_of(const std::vector<double>& values, const char* key,
                                     std::int64_t count, at::Device device);

/// Returns the sum of the weights of the classes, except those that are `ignored`, as 0-d float32.
at::Tensor weight_of(const at::Tensor& classes, const std::optional<at::Tensor>& weights,
                     std::optional<std::int64_t> ignored);

/// Predictions and targets of yes/no outputs, both bool [N, K].
struct Answers {
  at::Tensor called;  // whether the output predicts yes
  at::Tensor actual;  // whether the target is above 0.5
};

/// Returns the logit above which an output predicts yes for numeric targets; nullopt for class
/// targets. Throws Error(config) for a threshold with class targets.
std::optional<double> least_logit(double threshold, const stage::MetricContext& context);

/// Compares `logits` and `targets`, both [N, K] of any floating dtype, with their thresholds.
/// `above` is least_logit(), which is compared in float32 or wider.
Answers answers_of(const at::Tensor& logits, const at::Tensor& targets, double above);

/// Returns whether each target is above 0.5.
at::Tensor is_positive(const at::Tensor& targets);

}  // namespace trainctl::stages
