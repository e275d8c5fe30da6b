#include "stages/targets.hpp"

#include "base/error.hpp"
#include "device/host_read.hpp"
#include "spec/options/metric.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>

namespace trainctl::stages {

at::Tensor as_numbers(const at::Tensor& logits, const at::Tensor& targets) {
  if (targets.dim() == logits.dim()) return targets;
  return at::zeros_like(logits.detach()).scatter_(1, targets.unsqueeze(1), 1);
}

at::Tensor widen(const at::Tensor& logits) {
  return logits.to(c10::promoteTypes(logits.scalar_type(), at::kFloat));
}

ClassRows class_rows(const at::Tensor& logits, const at::Tensor& targets) {
  if (logits.dim() == 2) return {logits, targets};
  if (logits.dim() == 4) return {logits.permute({0, 2, 3, 1}).flatten(0, 2), targets.flatten()};
  return {logits.flatten(0, -2), targets.flatten()};
}

std::optional<at::Tensor> weights_of(const std::vector<double>& values, const char* key,
                                     std::int64_t count, at::Device device) {
  if (values.empty()) return std::nullopt;
  ENSURE(config, static_cast<std::int64_t>(values.size()) == count,
         "{} has {} values, but the data has {} classes\nhint: give one per class", key,
         values.size(), count);
  ENSURE(config, std::any_of(values.begin(), values.end(), [](double w) { return w > 0; }),
         "{} must not be all zeros\nhint: give at least one class a weight above 0", key);
  return device::copy_to(at::tensor(values, at::kFloat), device, "weights of the classes");
}

at::Tensor weight_of(const at::Tensor& classes, const std::optional<at::Tensor>& weights,
                     std::optional<std::int64_t> ignored) {
  if (!ignored) return weights->index_select(0, classes).sum();
  const at::Tensor counted = classes.ne(*ignored);
  if (!weights) return counted.sum().to(at::kFloat);
  const at::Tensor each = weights->index_select(0, classes.masked_fill(counted.logical_not(), 0));
  return (each * counted).sum();
}

std::optional<double> least_logit(double threshold, const stage::MetricContext& context) {
  if (context.targets == spec::Targets::numbers) return std::log(threshold / (1 - threshold));
  ENSURE(config, threshold == spec::metric::kEvenChance,
         "threshold applies only to binary targets, but this data has classes\nhint: remove it");
  return std::nullopt;
}

Answers answers_of(const at::Tensor& logits, const at::Tensor& targets, double above) {
  return {widen(logits.detach()).gt(above), is_positive(targets)};
}

at::Tensor is_positive(const at::Tensor& targets) { return targets.gt(spec::metric::kEvenChance); }

}  // namespace trainctl::stages
