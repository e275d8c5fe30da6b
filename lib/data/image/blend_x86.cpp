#include "data/image/blend_portable.hpp"
#include "data/image/blend_rows.hpp"

#include <vector>

#define FMA __attribute__((target("avx2,fma")))

namespace trainctl::data {
namespace {

FMA void saturate(const std::uint8_t* from, std::int64_t pixels, const Blend& blend,
                  std::uint8_t* to) {
  saturate_row(from, pixels, blend, to);
}

FMA void gray(const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to) {
  gray_row(from, pixels, to);
}

FMA std::int64_t sum_of_luma(const std::uint8_t* from, std::int64_t pixels) {
  return sum_of_luma_row(from, pixels);
}

FMA void sharpen(const RowsToSharpen& rows, std::int64_t count, float other, std::uint8_t* to) {
  sharpen_row(rows, count, other, to);
}

}  // namespace

std::span<const BlendKernels> blend_kernels() {
  static const std::vector<BlendKernels> all = [] {
    std::vector<BlendKernels> found{portable_blend()};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      found.push_back({"fma", saturate, gray, sum_of_luma, sharpen});
    return found;
  }();
  return all;
}

}  // namespace trainctl::data
