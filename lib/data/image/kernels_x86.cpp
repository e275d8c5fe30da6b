#include "data/image/geometry.hpp"
#include "data/image/pixel_math.hpp"

#include <immintrin.h>

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

// Rows are read backwards. Kernels must not access bytes outside of their two rows, because the
// next row may belong to another thread.

namespace {

#define AVX2 __attribute__((target("avx2")))

__m128i load(const std::uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
void store(std::uint8_t* to, __m128i bytes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

AVX2 void mirror_one_avx2(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  const __m128i reversed = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m256i both = _mm256_broadcastsi128_si256(reversed);
  std::int64_t left = width;
  for (; left >= 32; left -= 32, to += 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + left - 32));
    const __m256i turned = _mm256_shuffle_epi8(_mm256_permute2x128_si256(bytes, bytes, 1), both);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), turned);
  }
  for (; left >= 16; left -= 16, to += 16)
    store(to, _mm_shuffle_epi8(load(from + left - 16), reversed));
  if (left > 0 && width >= 16) {
    // Rewrites the last 16 bytes, which overlap bytes that are already written.
    store(to + left - 16, _mm_shuffle_epi8(load(from), reversed));
  } else {
    while (left > 0) *to++ = from[--left];
  }
}

// Processes five pixels per step: 16 bytes are read and written, and the next step overwrites the
// extra byte. The last five pixels are written as two overlapping halves.
AVX2 void mirror_three_avx2(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  const __m128i after_one = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
  const __m128i first_five = _mm_setr_epi8(12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, 15);
  std::int64_t left = 3 * width;
  if (left < 18) {
    for (; left > 0; left -= 3, to += 3) std::copy_n(from + left - 3, 3, to);
    return;
  }
  for (; left >= 18; left -= 15, to += 15)
    store(to, _mm_shuffle_epi8(load(from + left - 16), after_one));
  const __m128i last = _mm_shuffle_epi8(load(from), first_five);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to + left - 15), last);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to + left - 8), _mm_srli_si128(last, 7));
}

}  // namespace

void add_vector_kernels(std::vector<MirrorKernels>& kernels) {
  if (__builtin_cpu_supports("avx2"))
    kernels.push_back({"avx2", mirror_one_avx2, mirror_three_avx2});
}

}  // namespace trainctl::data
