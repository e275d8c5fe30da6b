#pragma once

#include "stage/stages.hpp"

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

/// Numbers to learn as yes-or-no answers, both bool [N, K].
struct Answers {
  at::Tensor called;  // whether an output says yes
  at::Tensor actual;  // whether its number does: it is above 0.5
};

/// The logit above which an output says yes, where the data has numbers to learn; nothing where it
/// has classes. Throws Error(config) for a threshold with classes.
std::optional<double> least_logit(double threshold, const stage::MetricContext& context);

/// `logits`, `targets`: [N, K], of any floating type; `above`: the least_logit(), which is
/// compared in float32 or wider.
Answers answers_of(const at::Tensor& logits, const at::Tensor& targets, double above);

/// Whether each number says yes.
at::Tensor says_yes(const at::Tensor& targets);

}  // namespace trainctl::stages
