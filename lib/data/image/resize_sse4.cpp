#include "data/image/resize.hpp"

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
template <int kChannels>
SSE4_INLINE void four_pixels(const HorizontalJob& job, std::size_t row, std::int64_t x) {
  const AxisWeights& axis = *job.axis;
  const __m128i pairs = kChannels == 3
                            ? _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1)
                            : _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
  const __m128i packed = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const int shift = axis.precision + kMiddleBits;
  __m128i sums[4];
  for (int j = 0; j < 4; ++j) {
    const std::int16_t* weights = axis.weights.data() + (x + j) * 2 * axis.pairs;
    const std::int16_t* in =
        job.in[row] + std::int64_t{kChannels} * axis.start[static_cast<std::size_t>(x + j)];
    __m128i sum = _mm_set1_epi32(1 << (shift - 1));
    for (int p = 0; p < axis.pairs; ++p) {
      const __m128i values = _mm_shuffle_epi8(load(in + 2 * kChannels * p), pairs);
      sum = _mm_add_epi32(sum, _mm_madd_epi16(values, weight_pair(weights + 2 * p)));
    }
    sums[j] = _mm_sra_epi32(sum, _mm_cvtsi32_si128(shift));
  }
  const __m128i words =
      _mm_packus_epi16(_mm_packs_epi32(sums[0], sums[1]), _mm_packs_epi32(sums[2], sums[3]));
  const __m128i bytes = kChannels == 3 ? _mm_shuffle_epi8(words, packed) : words;
  std::memcpy(job.out[row] + kChannels * x, &bytes, 4 * kChannels);
}

/// Four pixels of one row of one channel: of each, eight neighbours at a time. `last` has the
/// weights of its own among the last eight.
SSE4_INLINE void four_grey_pixels(const HorizontalJob& job, std::size_t row, std::int64_t x,
                                  __m128i last) {
  const AxisWeights& axis = *job.axis;
  const int taps = 2 * axis.pairs;
  const int shift = axis.precision + kMiddleBits;
  __m128i sums[4];
  for (int j = 0; j < 4; ++j) {
    const std::int16_t* weights = axis.weights.data() + (x + j) * taps;
    const std::int16_t* in = job.in[row] + axis.start[static_cast<std::size_t>(x + j)];
    __m128i sum = _mm_setzero_si128();
    for (int k = 0; k < taps; k += 8) {
      __m128i eight = load(weights + k);
      if (k + 8 > taps) eight = _mm_and_si128(eight, last);
      sum = _mm_add_epi32(sum, _mm_madd_epi16(load(in + k), eight));
    }
    sums[j] = sum;
  }
  __m128i sum = _mm_hadd_epi32(_mm_hadd_epi32(sums[0], sums[1]), _mm_hadd_epi32(sums[2], sums[3]));
  sum = _mm_add_epi32(sum, _mm_set1_epi32(1 << (shift - 1)));
  sum = _mm_sra_epi32(sum, _mm_cvtsi32_si128(shift));
  const __m128i words = _mm_packs_epi32(sum, sum);
  const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
  std::memcpy(job.out[row] + x, &bytes, sizeof bytes);
}

SSE4 void grey_rows(const HorizontalJob& job) {
  const auto outputs = static_cast<std::int64_t>(job.axis->start.size());
  const auto left = static_cast<std::int16_t>(2 * job.axis->pairs % 8);
  const __m128i last =
      _mm_cmpgt_epi16(_mm_set1_epi16(left), _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
  for (std::size_t row = 0; row < job.rows; ++row) {
    for (std::int64_t x = 0; x + 4 <= outputs; x += 4) four_grey_pixels(job, row, x, last);
    if (outputs % 4 != 0) four_grey_pixels(job, row, outputs - 4, last);
  }
}

template <int kChannels>
SSE4 void horizontal_rows(const HorizontalJob& job) {
  const auto outputs = static_cast<std::int64_t>(job.axis->start.size());
  for (std::size_t row = 0; row < job.rows; ++row) {
    for (std::int64_t x = 0; x + 4 <= outputs; x += 4) four_pixels<kChannels>(job, row, x);
    if (outputs % 4 != 0) four_pixels<kChannels>(job, row, outputs - 4);
  }
}

void horizontal(const HorizontalJob& job) {
  if (job.axis->start.size() < 4) return horizontal_from(job, 0);
  switch (job.channels) {
    case 1: return grey_rows(job);
    case 3: return horizontal_rows<3>(job);
    case 4: return horizontal_rows<4>(job);
    default: return horizontal_from(job, 0);
  }
}

}  // namespace

const ResizeKernels& sse4_resize() {
  static constexpr ResizeKernels kSse4{"sse4", 2, vertical, horizontal};
  return kSse4;
}

}  // namespace trainctl::data
