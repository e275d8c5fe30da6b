#include "train/finite.hpp"

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

/// The highest bit is set where all bits of the exponent are: NaN and the infinities.
inline std::uint32_t mark(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0x7fffffffU) + 0x00800000U;
}

/// The marks of all, one over the other. A loop of a fixed length is what GCC makes vectors of at
/// -O2; four places at a time keep it from waiting for its own sum.
std::uint32_t marks_of(const float* values, std::int64_t count) {
  constexpr std::int64_t kPart = 256;
  constexpr std::int64_t kBlock = 4 * kPart;
  std::uint32_t seen = 0;
  std::int64_t begin = 0;
  for (; begin + kBlock <= count; begin += kBlock) {
    const float* block = values + begin;
    for (std::int64_t i = 0; i < kPart; ++i)
      seen |= mark(block[i]) | mark(block[i + kPart]) | mark(block[i + 2 * kPart]) |
              mark(block[i + 3 * kPart]);
  }
  for (; begin < count; ++begin) seen |= mark(values[begin]);
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
  const bool is_plain = tensor.is_cpu() && tensor.scalar_type() == at::kFloat &&
                        tensor.is_non_overlapping_and_dense();
  if (is_plain) return is_finite(tensor.const_data_ptr<float>(), tensor.numel());
  const at::NoGradGuard guard;
  return tensor.isfinite().all().item<bool>();
}

bool all_finite(at::TensorList tensors) {
  return std::ranges::all_of(tensors, [](const at::Tensor& tensor) { return all_finite(tensor); });
}

}  // namespace trainctl::train
