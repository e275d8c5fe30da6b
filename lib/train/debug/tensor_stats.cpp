#include "train/debug/tensor_stats.hpp"

#include "train/state/weights.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace trainctl::train {
namespace {

template <class Value>
void fold(std::span<const Value> values, events::TensorSummary& into) {
  double sum = 0;
  std::size_t finite = 0;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const Value stored : values) {
    const auto value = static_cast<double>(stored);
    if (!std::isfinite(value)) {
      ++(std::isnan(value) ? into.nan_count : into.inf_count);
      continue;
    }
    ++finite;
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (finite == 0) return;
  into.min = least;
  into.max = most;
  into.mean = sum / static_cast<double>(finite);
}

template <class Value>
void fold_as(at::ScalarType type, const at::Tensor& tensor, events::TensorSummary& into) {
  const at::Tensor host = tensor.to(at::kCPU, type).contiguous();
  fold(std::span<const Value>(host.const_data_ptr<Value>(), static_cast<std::size_t>(host.numel())),
       into);
}

}  // namespace

events::TensorSummary summary_of(std::string name, const at::Tensor& tensor) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const at::NoGradGuard guard;
  events::TensorSummary summary{.name = std::move(name),
                                .dtype = dtype_name(tensor.scalar_type()),
                                .shape = tensor.sizes().vec(),
                                .min = kNone,
                                .max = kNone,
                                .mean = kNone};
  const at::Tensor values = tensor.detach();
  const bool is_wide = values.scalar_type() == at::kDouble || !values.is_floating_point();
  if (is_wide) {
    fold_as<double>(at::kDouble, values, summary);
  } else {
    fold_as<float>(at::kFloat, values, summary);
  }
  return summary;
}

std::vector<events::TensorSummary> offending_first(std::vector<events::TensorSummary> summaries,
                                                   std::size_t most) {
  std::ranges::stable_partition(summaries, is_bad);
  summaries.resize(std::min(most, summaries.size()));
  return summaries;
}

}  // namespace trainctl::train
