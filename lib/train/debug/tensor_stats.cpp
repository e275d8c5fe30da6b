#include "train/debug/tensor_stats.hpp"

#include "device/host_read.hpp"
#include "train/state/weights.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
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
  const at::Tensor host = device::copy_to_host(tensor, "summary of a tensor").to(type).contiguous();
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

namespace {

constexpr std::int64_t kGrain = 1 << 18;  // elements, 1 MiB: less is not worth a thread

// target_clones selects the widest vectors of the processor at run time; sanitizers do not support
// ifunc resolvers.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define FOR_EVERY_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_CPU
#endif

/// ORs a mark of every value: the highest bit is set if all exponent bits of a value are set, as in
/// NaN and infinity.
FOR_EVERY_CPU std::uint32_t marks_of(const float* values, std::int64_t count) {
  std::uint32_t seen = 0;
  for (std::int64_t i = 0; i < count; ++i)
    seen |= (std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffU) + 0x00800000U;
  return seen;
}

bool is_finite(const float* values, std::int64_t count) {
  const std::uint32_t seen = at::parallel_reduce(
      0, count, kGrain, std::uint32_t{0},
      [values](std::int64_t begin, std::int64_t end, std::uint32_t before) {
        return before | marks_of(values + begin, end - begin);
      },
      std::bit_or<>());
  return (seen >> 31U) == 0;
}

}  // namespace

bool all_finite(const at::Tensor& tensor) {
  const bool is_plain = tensor.layout() == at::kStrided && tensor.is_cpu() &&
                        tensor.scalar_type() == at::kFloat && tensor.is_non_overlapping_and_dense();
  if (is_plain) return is_finite(tensor.const_data_ptr<float>(), tensor.numel());
  const at::NoGradGuard guard;
  return device::value_of<bool>(tensor.isfinite().all(), "trainer.detect_anomaly");
}

bool all_finite(at::TensorList tensors) {
  return std::ranges::all_of(tensors, [](const at::Tensor& tensor) { return all_finite(tensor); });
}

namespace {

/// `exponent` has the bits that are all set in NaN and infinity.
template <class Bits>
bool is_finite(std::span<const std::byte> bytes, Bits exponent) {
  std::uint64_t found = 0;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
    Bits value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    found |= (value & exponent) == exponent ? 1U : 0U;
  }
  return found == 0;
}

}  // namespace

bool all_finite(std::span<const std::byte> bytes, std::string_view dtype) {
  if (dtype == "F32") return is_finite(bytes, std::uint32_t{0x7f800000});
  if (dtype == "F64") return is_finite(bytes, std::uint64_t{0x7ff0000000000000});
  if (dtype == "F16") return is_finite(bytes, std::uint16_t{0x7c00});
  if (dtype == "BF16") return is_finite(bytes, std::uint16_t{0x7f80});
  return true;
}

}  // namespace trainctl::train
