#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <optional>

namespace trainctl::stages {

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
