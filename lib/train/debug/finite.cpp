#include "train/debug/finite.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>

namespace trainctl::train {
namespace {

constexpr std::int64_t kGrain = 1 << 18;  // elements, 1 MiB: below it a thread is not worth waking

// Vectors of the widest kind that the processor has; the sanitizers cannot look into the choice.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define FOR_EVERY_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_CPU
#endif

/// Bit for bit one over the other: the highest bit of a value's is set where all bits of its
/// exponent are, as in NaN and the infinities.
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
  return tensor.isfinite().all().item<bool>();
}

bool all_finite(at::TensorList tensors) {
  return std::ranges::all_of(tensors, [](const at::Tensor& tensor) { return all_finite(tensor); });
}

}  // namespace trainctl::train
