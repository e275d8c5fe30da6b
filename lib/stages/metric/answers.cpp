#include "stages/metric/answers.hpp"

#include "base/error.hpp"
#include "spec/metric/answers.hpp"

#include <c10/core/ScalarType.h>

#include <cmath>

namespace trainctl::stages {

std::optional<double> least_logit(double threshold, const stage::MetricContext& context) {
  if (context.targets == spec::Targets::numbers) return std::log(threshold / (1 - threshold));
  ENSURE(config, threshold == spec::metric::kEvenChance,
         "threshold is of yes-or-no answers, and this data has classes: remove it");
  return std::nullopt;
}

Answers answers_of(const at::Tensor& logits, const at::Tensor& targets, double above) {
  const at::ScalarType wide = c10::promoteTypes(logits.scalar_type(), at::kFloat);
  return {logits.detach().to(wide).gt(above), says_yes(targets)};
}

at::Tensor says_yes(const at::Tensor& targets) { return targets.gt(spec::metric::kEvenChance); }

}  // namespace trainctl::stages
