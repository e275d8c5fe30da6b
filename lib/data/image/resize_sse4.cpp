#include "data/image/resize_x86.hpp"

#include <immintrin.h>

#include <cstring>

#define SSE4 __attribute__((target("sse4.1")))
#define SSE4_INLINE __attribute__((target("sse4.1"), always_inline)) inline

namespace trainctl::data {
namespace {

SSE4_INLINE __m128i load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

SSE4_INLINE __m128i weight_pair(const std::int16_t* weights) {
  std::int32_t pair = 0;
  std::memcpy(&pair, weights, sizeof pair);
  return _mm_set1_epi32(pair);
}

SSE4_INLINE void vertical_16(const VerticalJob& job, std::int64_t at) {
  const __m128i zero = _mm_setzero_si128();
  const int shift = job.precision - kMiddleBits;
  const __m128i count = _mm_cvtsi32_si128(shift);
  __m128i sums[4];
  for (__m128i& sum : sums) sum = _mm_set1_epi32(1 << (shift - 1));
  for (int p = 0; p < job.pairs; ++p) {
    const __m128i weights = weight_pair(job.weights + 2 * p);
    const __m128i upper = load(job.rows[2 * p] + at);
    const __m128i lower = load(job.rows[2 * p + 1] + at);
    const __m128i low = _mm_unpacklo_epi8(upper, lower);
    const __m128i high = _mm_unpackhi_epi8(upper, lower);
    sums[0] = _mm_add_epi32(sums[0], _mm_madd_epi16(_mm_unpacklo_epi8(low, zero), weights));
    sums[1] = _mm_add_epi32(sums[1], _mm_madd_epi16(_mm_unpackhi_epi8(low, zero), weights));
    sums[2] = _mm_add_epi32(sums[2], _mm_madd_epi16(_mm_unpacklo_epi8(high, zero), weights));
    sums[3] = _mm_add_epi32(sums[3], _mm_madd_epi16(_mm_unpackhi_epi8(high, zero), weights));
  }
  for (__m128i& sum : sums) sum = _mm_sra_epi32(sum, count);
  auto* out = reinterpret_cast<__m128i*>(job.out + at);
  _mm_storeu_si128(out, _mm_packs_epi32(sums[0], sums[1]));
  _mm_storeu_si128(out + 1, _mm_packs_epi32(sums[2], sums[3]));
}

SSE4 void vertical(const VerticalJob& job) {
  constexpr std::int64_t kWidth = 16;
  if (job.count < kWidth) return vertical_from(job, 0);
  for (std::int64_t at = 0; at + kWidth <= job.count; at += kWidth) vertical_16(job, at);
  if (job.count % kWidth != 0) vertical_16(job, job.count - kWidth);
}

/// Four pixels of one row: of each, the channels of two neighbours stand side by side for the
/// multiply-add.
SSE4_INLINE void four_pixels(const HorizontalJob& job, std::size_t row, std::int64_t x) {
  const AxisWeights& axis = *job.axis;
  const __m128i pairs = _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1);
  const __m128i packed = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const int shift = axis.precision + kMiddleBits;
  __m128i sums[4];
  for (int j = 0; j < 4; ++j) {
    const std::int16_t* weights = axis.weights.data() + (x + j) * 2 * axis.pairs;
    const std::int16_t* in =
        job.in[row] + std::int64_t{3} * axis.start[static_cast<std::size_t>(x + j)];
    __m128i sum = _mm_set1_epi32(1 << (shift - 1));
    for (int p = 0; p < axis.pairs; ++p) {
      const __m128i values = _mm_shuffle_epi8(load(in + 6 * p), pairs);
      sum = _mm_add_epi32(sum, _mm_madd_epi16(values, weight_pair(weights + 2 * p)));
    }
    sums[j] = _mm_sra_epi32(sum, _mm_cvtsi32_si128(shift));
  }
  const __m128i words =
      _mm_packus_epi16(_mm_packs_epi32(sums[0], sums[1]), _mm_packs_epi32(sums[2], sums[3]));
  const __m128i bytes = _mm_shuffle_epi8(words, packed);
  std::memcpy(job.out[row] + 3 * x, &bytes, 12);
}

SSE4 void horizontal(const HorizontalJob& job) {
  const auto outputs = static_cast<std::int64_t>(job.axis->start.size());
  if (job.channels != 3 || outputs < 4) return horizontal_from(job, 0);
  for (std::size_t row = 0; row < job.in.size(); ++row) {
    for (std::int64_t x = 0; x + 4 <= outputs; x += 4) four_pixels(job, row, x);
    if (outputs % 4 != 0) four_pixels(job, row, outputs - 4);
  }
}

}  // namespace

const ResizeKernels& sse4_resize() {
  static constexpr ResizeKernels kSse4{"sse4", vertical, horizontal};
  return kSse4;
}

}  // namespace trainctl::data
